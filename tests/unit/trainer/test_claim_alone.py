"""A claim by itself, on boards in memory: up to which second what was read or written is believed."""

from datetime import datetime, timedelta, timezone

import attrs
import pytest

from gputrain.catalog import ProvisioningModel
from gputrain.errors import RequestError, TransientError
from gputrain.planning import Candidate, Outcome
from gputrain.records import CANCELLED, MADE, WITHDRAWN, MemoryBoard, OvertakenError
from gputrain.trainer.boards import Boards
from gputrain.trainer.claim import STILL_S, SURE_S, Claim
from gputrain.trainer.ways import FULL_FOR_S, in_order, lately_refused, way_of
from tests.unit.records.values import ASK, WAY, record

JUST = 0.001
BEGAN = 1_000_000.0
CANDIDATE = Candidate(
    backend="compute", place="us-central1-a", region="us-central1", machine_type="g2-standard-4",
    gpu="L4", gpu_count=1, provisioning_model=ProvisioningModel.SPOT, num_nodes=1, nproc_per_node=1,
    price=None, max_run_duration=timedelta(hours=1),
)  # fmt: skip


class Keeper:
    """A backend so far as a claim sees one: it keeps records on a board."""

    settles_s = turn_s = 0.0
    repeats = False

    def __init__(self, board):
        self.board = board

    def recorder(self):
        return self


class Clocks:
    """The board's, the date of this process, and its clock that nobody sets."""

    def __init__(self):
        self.board = self.date = BEGAN
        self.steady = 0.0

    def pass_by(self, seconds):
        self.board += seconds
        self.date += seconds
        self.steady += seconds


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def home(clocks):
    return MemoryBoard(lambda: clocks.board)


@pytest.fixture
def other(clocks):
    return MemoryBoard(lambda: clocks.board)


@pytest.fixture
def claim(clocks, home, other):
    """Makes claims of processes: each has both backends, or those that are named."""

    def build(*boards):
        backends = {f"backend-{n}": Keeper(one) for n, one in enumerate(boards or (home, other))}
        date = lambda: datetime.fromtimestamp(clocks.date, timezone.utc)  # noqa: E731
        return Claim(Boards(backends), "bert-1", date, lambda: clocks.steady)

    return build


def fresh(board, **fields):
    return record(home=board.name, asks=(), **fields)


def test_boards_are_found_by_their_names_and_the_first_is_home(home, other):
    boards = Boards({"a": Keeper(home), "b": Keeper(other), "c": Keeper(home)})
    assert boards.all() == (home, other)
    assert (boards.named(home.name), boards.named(other.name)) == (home, other)
    assert boards.named("gs://elsewhere/") is None
    assert boards.of("d") is None


def test_without_a_backend_that_keeps_records_they_are_in_memory():
    boards = Boards({"a": object()})
    (own,) = boards.all()
    assert isinstance(own, MemoryBoard)
    assert boards.of("a") is None
    assert boards.named(own.name) is own


def test_the_record_of_another_home_is_read_there(claim, home, other):
    there = other.write(record(home=other.name))
    home.write(record(home=other.name, over="a copy"))
    mine = claim()
    assert mine.read() == there
    assert mine.home == other.name


def test_a_copy_whose_home_is_out_of_reach_says_where_it_goes_on(claim, home, other):
    home.write(record(home="gs://elsewhere/"))
    with pytest.raises(RequestError, match="gs://elsewhere/") as caught:
        claim().read()
    assert f"{home.name}, {other.name}" in caught.value.why


def test_nothing_is_read_where_no_board_has_it(claim):
    mine = claim()
    assert mine.read() is None
    assert mine.record is None
    mine.keep()  # and nothing is kept
    mine.end("cancelled")
    assert mine.read() is None


@pytest.mark.parametrize(
    ("after_s", "is_still"), [(0, True), (STILL_S - JUST, True), (STILL_S + JUST, False)]
)
def test_what_was_read_is_looked_up_again_after_a_second(claim, clocks, home, after_s, is_still):
    home.write(record(home=home.name))
    mine = claim()
    read = mine.read()
    home.write(attrs.evolve(home.read("bert-1"), over="cancelled"))
    clocks.pass_by(after_s)
    assert mine.is_still(read) is is_still


def test_what_is_gone_is_not_still_there_and_what_is_the_same_is(claim, clocks, home):
    home.write(record(home=home.name))
    mine = claim()
    read = mine.read()
    clocks.pass_by(10)
    assert mine.is_still(read)
    assert not mine.is_still(attrs.evolve(read, generation=read.generation + 1))
    home.remove(read)
    assert not mine.is_still(read)


@pytest.mark.parametrize(
    ("age_s", "after_s", "is_younger"),
    [
        (0, 0, True),
        (0, 99, True),
        (0, 100, False),
        (60, 39, True),
        (60, 40, False),
        (100, 0, False),
        (0, -1, False),
    ],
)
def test_how_old_a_record_is_counts_its_age_when_it_was_read(claim, clocks, home, age_s, after_s, is_younger):
    home.write(record(home=home.name))
    clocks.board += age_s
    mine = claim()
    read = mine.read()
    clocks.date += after_s
    assert mine.is_younger(read, 100) is is_younger


def test_of_what_was_never_read_nobody_knows_the_age(claim):
    assert not claim().is_younger(record(), 100)


def test_a_record_is_as_old_as_the_board_says_or_as_this_process_has_seen_it(claim, clocks, home):
    home.write(record(home=home.name))
    clocks.board += 50
    mine = claim()
    assert mine.read().age_s == 50
    clocks.steady += 70  # and the board's clock stands
    assert mine.read().age_s == 70
    clocks.board += 100
    assert mine.read().age_s == 150


def stands(claim):
    """Whether what our ask has made may be told of."""
    try:
        claim.confirm(is_shared=False, is_listed=False)
    except OvertakenError:
        return False
    return True


@pytest.mark.parametrize("behind", ["date", "steady"])
@pytest.mark.parametrize(("after_s", "is_ours"), [(SURE_S - JUST, True), (SURE_S, False)])
def test_its_own_write_is_sure_for_seconds_by_either_clock(claim, clocks, home, behind, after_s, is_ours):
    mine = claim()
    mine.ask(fresh(home), ASK)
    setattr(clocks, behind, getattr(clocks, behind) + after_s)
    assert mine.has_just_written() is is_ours


def test_a_date_that_is_set_back_makes_no_write_sure(claim, clocks, home):
    mine = claim()
    mine.ask(fresh(home), ASK)
    clocks.date -= 2 * SURE_S
    assert not mine.has_just_written()


def test_a_job_that_is_cancelled_the_moment_after_it_was_asked_for_is_not_told_of(claim, home):
    mine = claim()
    mine.ask(fresh(home), ASK)
    home.write(attrs.evolve(home.read("bert-1"), over="cancelled"))
    assert not stands(mine)


def test_what_was_asked_for_just_now_stands_where_nobody_can_read_its_record(
    claim, clocks, home, monkeypatch
):
    mine = claim()
    mine.ask(fresh(home), ASK)

    def fails(_job_id):
        raise TransientError("the bucket is away")

    monkeypatch.setattr(home, "read", fails)
    assert stands(mine)
    clocks.pass_by(SURE_S)
    with pytest.raises(TransientError):
        stands(mine)


@pytest.mark.parametrize(("times", "is_ours"), [(1, True), (2, False)])
def test_one_answer_that_a_record_is_not_there_does_not_prove_it(claim, home, monkeypatch, times, is_ours):
    mine, read, answers = claim(), home.read, [None] * times
    mine.ask(fresh(home), ASK)
    monkeypatch.setattr(home, "read", lambda job_id: answers.pop() if answers else read(job_id))
    assert stands(mine) is is_ours


@pytest.mark.parametrize(
    ("change", "is_ours"),
    [
        (lambda there: there, True),
        (lambda there: attrs.evolve(there, used_s=7), True),
        (lambda there: attrs.evolve(there, over="cancelled"), False),
        (lambda there: there.answered(MADE), False),
        (lambda there: there.asked(attrs.evolve(ASK, nonce="another")), False),
        (lambda there: attrs.evolve(there, asks=()), False),
    ],
    ids=["the same", "written again", "ended", "answered", "asked elsewhere", "no ask"],
)
def test_an_ask_is_ours_while_it_stands_open_and_is_the_latest(claim, clocks, home, change, is_ours):
    mine = claim()
    mine.ask(fresh(home), ASK)
    clocks.pass_by(SURE_S)
    home.write(change(home.read("bert-1")))
    assert stands(mine) is is_ours


def test_an_ask_whose_record_is_gone_is_not_ours_and_one_never_made_is(claim, clocks, home):
    mine = claim()
    assert stands(mine)
    mine.write(fresh(home))
    clocks.pass_by(SURE_S)
    assert stands(mine)
    mine.ask(mine.record, ASK)
    clocks.pass_by(SURE_S)
    home.remove(home.read("bert-1"))
    assert not stands(mine)


def test_who_keeps_a_record_keeps_it_young_and_is_told_that_another_was_quicker(claim, clocks, home):
    first, second = claim(), claim()
    first.ask(fresh(home), ASK)
    clocks.pass_by(100)
    first.keep()
    assert second.read().age_s == 0
    first.keep()
    with pytest.raises(OvertakenError):
        second.keep()


def test_what_is_answered_is_written_with_what_follows_and_only_once(claim, home):
    mine = claim()
    mine.ask(fresh(home), ASK)
    mine.answer("no room", "zone", "said")
    mine.answer("later", "region", "never said")
    assert home.read("bert-1").last.answer == ""
    mine.keep()
    last = home.read("bert-1").last
    assert (last.answer, last.scope, last.said) == ("no room", "zone", "said")


def test_a_record_is_copied_to_the_boards_of_the_backends_that_were_asked_alone(claim, home, other):
    mine = claim()
    away = attrs.evolve(ASK, way=attrs.evolve(WAY, backend="backend-1"))
    mine.ask(fresh(home), attrs.evolve(ASK, way=attrs.evolve(WAY, backend="backend-0")))
    assert other.read("bert-1") is None
    mine.ask(mine.record, away)
    assert other.read("bert-1") == home.read("bert-1")
    mine.end("cancelled")
    assert (home.read("bert-1").over, other.read("bert-1").over) == ("cancelled", "cancelled")
    mine.drop()
    assert (home.read("bert-1"), other.read("bert-1"), mine.record) == (None, None, None)


def asked_at(seconds, now, outcome=Outcome.NO_ROOM, attempt=0):
    """A record read so many seconds after its only ask, which was refused then."""
    ask = attrs.evolve(
        ASK, way=way_of(CANDIDATE), at=now - seconds, answer=outcome.value, scope="zone", attempt=attempt
    )
    return record(asks=(ask,), written_at=now, age_s=0.0)


@pytest.mark.parametrize(
    ("ago_s", "is_passed_over"), [(0, True), (FULL_FOR_S - 1, True), (FULL_FOR_S, False)]
)
def test_a_place_that_refused_is_passed_over_for_half_an_hour(ago_s, is_passed_over):
    found = lately_refused(asked_at(ago_s, BEGAN), [CANDIDATE])
    assert bool(found) is is_passed_over
    for one in found:
        assert (one.candidate, one.outcome, one.scope.value) == (CANDIDATE, Outcome.NO_ROOM, "zone")
        assert one.at == datetime.fromtimestamp(BEGAN, timezone.utc) - timedelta(seconds=ago_s)


def test_only_what_says_that_a_place_is_full_passes_it_over_and_only_in_its_attempt():
    for outcome in Outcome:
        is_full = outcome in (Outcome.NO_ROOM, Outcome.NO_QUOTA, Outcome.NOT_HERE)
        assert bool(lately_refused(asked_at(0, BEGAN, outcome), [CANDIDATE])) is is_full
    assert not lately_refused(asked_at(0, BEGAN), [attrs.evolve(CANDIDATE, place="us-central1-b")])
    later = asked_at(0, BEGAN)
    later = later.asked(attrs.evolve(ASK, attempt=1))
    assert not lately_refused(later, [CANDIDATE])


@pytest.mark.parametrize("over", [WITHDRAWN, CANCELLED, "wait_limit", "stockout_region"])
def test_who_submits_what_was_given_up_asks_anew(over):
    assert not lately_refused(attrs.evolve(asked_at(0, BEGAN), over=over), [CANDIDATE])


def test_candidates_that_a_ladder_does_not_know_come_last_as_they_were():
    a, b, c, d = (attrs.evolve(CANDIDATE, place=f"us-central1-{one}") for one in "abcd")
    assert in_order([d, a, b, c], [way_of(c), way_of(b)]) == (c, b, d, a)


def asking(backend, nonce):
    return attrs.evolve(ASK, at=0.0, nonce=nonce, way=attrs.evolve(WAY, backend=backend))


def test_of_two_whose_homes_differ_and_who_ask_at_once_the_one_that_sees_the_other_yields(claim, home, other):
    mine, theirs = claim(), claim(other)
    assert mine.read() is theirs.read() is None
    theirs.ask(fresh(other), asking("backend-0", "ba9876543210"))
    with pytest.raises(OvertakenError):
        mine.ask(fresh(home), asking("backend-1", "0123456789ab"))
    assert home.read("bert-1") is None
    assert other.read("bert-1") == theirs.record == mine.read()


def test_a_job_goes_on_nowhere_where_another_has_its_key_and_takes_nothing_of_it_away(claim, home, other):
    mine, theirs = claim(), claim(other)
    mine.ask(fresh(home), asking("backend-0", "0123456789ab"))
    theirs.ask(fresh(other), asking("backend-0", "ba9876543210"))
    mine.answer("no_room")
    with pytest.raises(RequestError, match="another job of that key") as caught:
        mine.ask(mine.record, asking("backend-1", "0123456789ab"))
    assert caught.value.try_elsewhere
    mine.drop()
    assert home.read("bert-1") is None
    assert other.read("bert-1") == theirs.record


class Crowded(MemoryBoard):
    """A board on which another process writes between a read and the write that follows it."""

    meanwhile = staticmethod(lambda: None)

    def write(self, record):
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return super().write(record)


def test_who_writes_between_a_look_for_others_and_the_copy_is_seen(claim, clocks, home):
    other = Crowded(lambda: clocks.board)
    mine, theirs = claim(home, other), claim(other)
    assert mine.read() is theirs.read() is None
    other.meanwhile = lambda: theirs.ask(fresh(other), asking("backend-0", "ba9876543210"))
    with pytest.raises(OvertakenError):
        mine.ask(fresh(home), asking("backend-1", "0123456789ab"))
    assert other.read("bert-1") == theirs.record


def test_who_repeats_an_ask_writes_down_that_it_is_shared_and_its_asker_takes_nothing_back(claim, home):
    first, second = claim(), claim()
    first.ask(fresh(home), ASK)
    second.read()
    second.confirm(is_shared=True, is_listed=False)
    assert home.read("bert-1").latest.is_shared
    first.answer("no room")
    with pytest.raises(OvertakenError):
        first.ask(first.record, attrs.evolve(ASK, nonce="another"))
    first.drop()
    assert home.read("bert-1").latest.is_shared


@pytest.mark.parametrize("how", ["repeats it", "takes it up"])
def test_who_asked_takes_nothing_back_that_another_was_told_of(claim, home, how):
    first, second = claim(), claim()
    first.ask(fresh(home), ASK)
    second.read()
    if how == "repeats it":
        second.confirm(is_shared=True, is_listed=False)
    else:
        second.share()
    with pytest.raises(OvertakenError):
        first.withdraw(goes_on=False)
    assert not home.read("bert-1").over


@pytest.mark.parametrize("told", ["nobody", "another", "nobody can look"])
def test_a_withdrawal_that_cannot_be_noted_is_one_only_where_nobody_was_told(claim, home, monkeypatch, told):
    first, second = claim(), claim()
    first.ask(fresh(home), ASK)
    if told == "another":
        second.read()
        second.share()
    monkeypatch.setattr(home, "write", refusing)
    if told == "nobody can look":
        monkeypatch.setattr(home, "read", refusing)
    if told == "another":
        with pytest.raises(OvertakenError):
            first.withdraw(goes_on=False)
    else:
        first.withdraw(goes_on=False)


def refusing(*_):
    raise TransientError("the board is away")


def test_a_struck_write_drops_no_record_that_somebody_has_ended_since(claim, home):
    first, second = claim(), claim()
    with pytest.raises(KeyboardInterrupt):
        _struck_behind_its_write(first, home)
    second.end("cancelled")
    first.drop()
    assert home.read("bert-1").over == "cancelled"


@pytest.mark.parametrize("change", ["kept", "taken back", "asked elsewhere"])
def test_who_repeats_anothers_ask_tells_of_it_only_while_it_stands(claim, home, change):
    first, second = claim(), claim()
    first.ask(fresh(home), ASK)
    second.read()
    if change == "kept":
        first.keep()
    elif change == "taken back":
        first.drop()
    else:
        first.answer("no room")
        first.ask(first.record, attrs.evolve(ASK, nonce="another"))
    if change == "kept":
        second.confirm(is_shared=True, is_listed=False)
        assert home.read("bert-1").latest.is_shared
    else:
        with pytest.raises(OvertakenError):
            second.confirm(is_shared=True, is_listed=False)


def test_a_write_that_was_struck_takes_back_no_ask_that_another_shares(claim, home):
    first, second = claim(), claim()
    with pytest.raises(KeyboardInterrupt):
        _struck_behind_its_write(first, home)
    second.read()
    second.confirm(is_shared=True, is_listed=False)
    first.drop()
    assert home.read("bert-1") is not None


def _struck_behind_its_write(claim, home):
    write = home.write

    def struck(record):
        write(record)
        raise KeyboardInterrupt

    home.write = struck
    try:
        claim.ask(fresh(home), ASK)
    finally:
        home.write = write


def test_what_lists_find_late_is_as_young_as_its_record(claim, clocks, home):
    mine = claim()
    mine.ask(fresh(home), ASK)
    clocks.pass_by(SURE_S)
    mine.confirm(is_shared=False, is_listed=True)
    assert home.read("bert-1").age_s == 0.0
    before = home.read("bert-1").generation
    mine.confirm(is_shared=False, is_listed=True)
    assert home.read("bert-1").generation == before
