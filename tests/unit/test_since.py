"""How long ago something was, whatever somebody does to the date."""

from gputrain.times import Since


class Clocks:
    date, steady = 1_000_000.0, 5.0


def since(clocks):
    return Since(lambda: clocks.date, lambda: clocks.steady)


def test_a_date_that_is_set_back_takes_no_second_away():
    clocks = Clocks()
    made = since(clocks)
    clocks.date, clocks.steady = clocks.date - 86400.0, clocks.steady + 30.0
    assert made.seconds == 30.0


def test_the_time_that_a_machine_slept_counts():
    clocks = Clocks()
    made = since(clocks)
    clocks.date += 600.0
    assert made.seconds == 600.0
