"""The request log keeps the last requests, and no more memory than it is given."""

from __future__ import annotations

from gputrain_emulator.exchanges import RequestLog, Seen


def seen(number: int, size: int) -> Seen:
    return Seen(verb="GET", path=f"/{number}", method="", caller="", status=200, body=b"", reply=b"x" * size)


def test_it_forgets_the_oldest_for_their_number() -> None:
    log = RequestLog(size=3)
    for number in range(5):
        log.append(seen(number, 1))
    assert [one.path for one in log] == ["/2", "/3", "/4"]


def test_it_forgets_the_oldest_for_their_bytes() -> None:
    log = RequestLog()
    log.total_bytes = 2500
    for number in range(5):
        log.append(seen(number, 1000))
    assert [one.path for one in log] == ["/3", "/4"]


def test_it_cuts_a_body_that_is_longer_than_it_keeps() -> None:
    log = RequestLog()
    log.append(seen(0, 1 << 20))
    assert [len(one.reply) for one in log] == [1 << 16]


def test_it_keeps_everything_when_it_is_told_to() -> None:
    log = RequestLog(size=1)
    log.keep_everything()
    for number in range(3):
        log.append(seen(number, 1 << 20))
    assert [len(one.reply) for one in log] == [1 << 20] * 3
