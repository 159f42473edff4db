"""Whatever nobody foresaw of a backend names it, raised or answered, whichever of its calls it was."""

import contextlib
import math
import re
import signal

import attrs
import pytest

from gputrain import Image, ProviderError, State, attach
from gputrain.backends import seam
from gputrain.backends.base import JobRef, LogLine, LogPage, Orphan
from gputrain.backends.guard import UnforeseenError
from gputrain.errors import CapacityError, QuotaExceededError, TransientError
from gputrain.lifecycle import Failure, Observation
from gputrain.planning import Fact, Limit
from gputrain.preflight import Check, Finding
from gputrain.quota import Quotas
from gputrain.trainer.boards import Boards
from gputrain.trainer.context import Staged
from gputrain.trainer.undo import given_up, keep_out
from tests.unit.records.values import ASK, WAY, record
from tests.unit.trainer.places import JOB, Place


class MuteError(Exception):
    """One whose text cannot be had."""

    def __str__(self):
        raise RuntimeError


ASKED = {"gpu": "L4:1"}
DOWN = OSError("the cluster is down")
UNFORESEEN = (DOWN, KeyError("partition"), RuntimeError("?"), MuteError())


class Rack(Place):
    """All that a backend may do besides, until its cluster is down."""

    def __init__(self, *down, name="rack", answer=DOWN, **more):
        super().__init__(name, **more)
        self.down, self.answer = set(down), answer

    def __getattribute__(self, name):
        def answering(*_asked, **_named):
            if isinstance(self.answer, BaseException):
                raise self.answer
            return self.answer

        own = super().__getattribute__
        return answering if name in own("__dict__").get("down", ()) else own(name)

    def complete(self, request):
        return request

    def send(self, bundle):
        pass

    def tidy(self, ref, seen):
        pass

    def orphans(self):
        return (Orphan(name="left", place="east-a", job_id="j", status="running", price=None),)

    def clean_up(self, only=None):
        return tuple(only or self.orphans())

    def _nothing(self, *_asked, **_named):
        return ()

    preflight = quotas = ssh_command = cursor_near_end = ask_for_stacks = stacks = _nothing


def job_of(world, script):
    """A job that is there already, and its backend."""
    rack = Rack()
    return world.trainer(rack).submit(script, **ASKED), rack


BEFORE = {
    "stage": lambda trainer, script: trainer.submit(script, **ASKED),
    "render": lambda trainer, script: trainer.plan(script, **ASKED).requests,
    "complete": lambda trainer, script: trainer.submit(script, **ASKED),
    "send": lambda trainer, script: trainer.submit(script, **ASKED),
    "create": lambda trainer, script: trainer.submit(script, **ASKED),
    "find": lambda trainer, script: trainer.submit(script, idempotency_key="k", **ASKED),
    "recorder": lambda trainer, script: trainer.submit(script, **ASKED),
    "quotas": lambda trainer, _script: trainer.quotas("L4:1"),
    "orphans": lambda trainer, _script: trainer.orphans(),
    "clean_up": lambda trainer, _script: trainer.clean_up(),
}
AFTER = {
    "observe": lambda job: job.refresh(),
    "logs": lambda job: list(job.logs()),
    "cursor_near_end": lambda job: list(job.logs(tail=3)),
    "cancel": lambda job: job.cancel(),
    "tidy": lambda job: job.supervise(),
    "ssh_command": lambda job: job.ssh_command(),
    "ask_for_stacks": lambda job: job.stacks(),
    "stacks": lambda job: job.stacks(),
}


def told_by(call, *given):
    with pytest.raises(ProviderError, match="of the backend 'rack'") as caught:
        call(*given)
    cause = caught.value.__cause__
    assert caught.value.why == f"{type(cause).__name__}: {'' if isinstance(cause, MuteError) else cause}"
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize("error", UNFORESEEN)
@pytest.mark.parametrize("call", BEFORE)
def test_what_nobody_foresaw_of_a_backend_names_it(world, script, call, error):
    told_by(BEFORE[call], world.trainer(Rack(call, answer=error)), script)


@pytest.mark.parametrize("error", UNFORESEEN)
@pytest.mark.parametrize("call", AFTER)
def test_what_nobody_foresaw_of_a_job_names_its_backend(world, script, call, error):
    job, rack = job_of(world, script)
    rack.down, rack.answer = {call}, error
    told_by(AFTER[call], job)


GIVES_NOTHING = {"send", "cancel", "tidy", "ask_for_stacks", "recorder"}
UNDUE = (None, 7, object)


@pytest.mark.parametrize("answer", UNDUE)
@pytest.mark.parametrize("call", sorted(BEFORE.keys() - GIVES_NOTHING))
def test_an_answer_of_another_kind_than_is_due_names_the_backend_and_the_call(world, script, call, answer):
    error = told_by(BEFORE[call], world.trainer(Rack(call, answer=answer)), script)
    assert re.search(rf"{call}\(.*\) is .*, where \w+ is due", error.why)


@pytest.mark.parametrize("answer", UNDUE)
@pytest.mark.parametrize("call", sorted(AFTER.keys() - GIVES_NOTHING))
def test_an_answer_of_another_kind_of_a_job_names_its_backend_and_the_call(world, script, call, answer):
    job, rack = job_of(world, script)
    rack.down, rack.answer = {call}, answer
    assert re.search(rf"{call}\(.*\) is .*, where \w+ is due", told_by(AFTER[call], job).why)


@pytest.mark.parametrize("pause", [None, "soon", True, -1, math.nan, math.inf])
def test_a_pause_that_is_none_names_its_backend(world, script, pause):
    job, rack = job_of(world, script)
    rack.poll_s = pause
    for call in (lambda: job.wait(timeout=1), job.future, job.stacks, lambda: job.logs(follow=True)):
        assert told_by(lambda call=call: next(iter(call()), None)).why.startswith("TypeError: poll_s is ")


@pytest.mark.parametrize(
    ("field", "value"),
    [("board", 7), ("settles_s", None), ("turn_s", "long"), ("turn_s", -1), ("repeats", 1)],
)
def test_a_recorder_that_says_what_it_cannot_mean_names_its_backend_and_nothing_is_asked(
    world, script, field, value
):
    rack = Rack(board=world.board())
    setattr(rack, field, value)
    trainer = world.trainer(rack, Place("other"))
    assert field in told_by(lambda: trainer.submit(script, **ASKED)).why
    assert rack.asked == []


def test_settings_that_are_none_name_their_backend_and_nothing_is_asked(world, script):
    rack = Rack(board=world.board())
    rack.choices = None
    told = told_by(lambda: world.trainer(rack, Place("other")).submit(script, **ASKED))
    assert (told.why, rack.asked) == ("TypeError: choices is None, where Mapping is due", [])


class LateRack(Rack):
    """One whose jobs may come late."""

    may_come = bar = let_in = shut = Rack._nothing


@pytest.mark.parametrize("answer", [DOWN, KeyError("job"), "no ask"])
@pytest.mark.parametrize(
    "call",
    [
        lambda rack, there: seam.may_come(rack, there),
        lambda rack, there: keep_out(Boards({"rack": rack}), there),
        lambda rack, there: given_up(Boards({"rack": rack}), rack.board, there),
        lambda rack, there: seam.shut(rack, "rack", there.job_id),
    ],
)
def test_who_keeps_late_jobs_from_training_is_named_as_well(world, call, answer):
    rack = LateRack("may_come", "bar", "let_in", "shut", answer=answer, board=world.board())
    ask = attrs.evolve(ASK, way=attrs.evolve(WAY, backend="rack"), answer="no room", may_come=True)
    told_by(call, rack, record(asks=(ask,)))


@pytest.mark.parametrize("answer", ["", 7, object])
@pytest.mark.parametrize(
    ("call", "first"), [("name_of", None), ("there", DOWN), ("clear", DOWN), ("code", None)]
)
def test_what_a_recorder_answers_is_of_the_kind_that_is_due(world, script, call, first, answer):
    rack = Rack(board=world.board())
    rack.answers = [first]
    trainer = world.trainer(rack, Place("other"))
    with contextlib.suppress(ProviderError):
        trainer.submit(script, idempotency_key="k", **ASKED)
    rack.down, rack.answer = {call}, answer
    if call == "code":  # of a process that has none of its own
        error = told_by(Staged(JOB).on, rack, rack, rack.board.read(JOB))
    else:
        error = told_by(lambda: trainer.submit(script, idempotency_key="k", **ASKED))
    assert re.search(rf"TypeError: {call}\(...\) is .*, where \w+( or None)? is due", error.why)
    assert len(rack.asked) == 1


@pytest.mark.parametrize(
    ("call", "answer", "why"),
    [
        ("observe", {"state": "running"}, "observe(...) is {'state': 'running'}, where Observation is due"),
        ("observe", Observation(state="on"), "observe(...).state is 'on', where State or None is due"),
        ("observe", Observation(failure="?"), "observe(...).failure is '?', where Failure or None is due"),
        ("logs", LogPage(lines=None, cursor=""), "logs(...).lines is None, where Iterable is due"),
        ("logs", LogPage(lines=("a",), cursor=""), "one of logs(...).lines is 'a', where LogLine is due"),
        ("logs", LogPage(lines=(), cursor=3), "logs(...).cursor is 3, where str is due"),
        (
            "logs",
            LogPage(lines=(LogLine(message=3),), cursor=""),
            "one of logs(...).lines.message is 3, where str is due",
        ),
        (
            "observe",
            Observation(failure=Failure(kind="exit", message=None)),
            "observe(...).failure.message is None, where str is due",
        ),
        ("observe", Observation(detail=None), "observe(...).detail is None, where str is due"),
        (
            "observe",
            Observation(price_usd_h="1"),
            "observe(...).price_usd_h is '1', where int or float or Real or None is due",
        ),
    ],
)
def test_what_is_in_an_answer_is_of_the_kind_that_is_due(world, script, call, answer, why):
    job, rack = job_of(world, script)
    rack.down, rack.answer = {call}, answer
    assert told_by(AFTER[call], job).why == f"TypeError: {why}"


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (Fact(verdict="yes"), "one of availability(...).verdict is 'yes', where Verdict is due"),
        (Fact(readings=None), "one of availability(...).readings is None, where tuple or list is due"),
        (Fact(note=b"?"), "one of availability(...).note is b'?', where str is due"),
    ],
)
def test_what_is_in_a_fact_is_of_the_kind_that_is_due(world, script, monkeypatch, fact, why):
    rack = Rack()
    monkeypatch.setattr(rack, "availability", lambda wanted: dict.fromkeys(wanted, fact), raising=False)
    with pytest.raises(UnforeseenError, match="'rack'") as caught:
        world.trainer(rack).plan(script, **ASKED)
    assert caught.value.why == f"TypeError: {why}"


@pytest.mark.parametrize(
    ("part", "value", "kind"),
    [
        ("name", 3, "str"),
        ("place", None, "str"),
        ("made_at", None, "int or float or Real"),
        ("made_at", "1", "int"),
    ],
)
def test_a_job_whose_name_is_none_is_refused_and_hides_no_others(world, script, part, value, kind):
    (job, other), rack = job_of(world, script), Rack(name="other")
    named = attrs.evolve(JobRef(backend="other", project="p", place="east-a", name=JOB), **{part: value})
    rack.down, rack.answer = {"find"}, (named,)
    found = world.trainer(other, rack).jobs()
    assert [one.uri for one in found] == [job.uri]
    assert [one.partition(":")[0] for one in found.left_out] == ["other"]
    rack = Rack("create", answer=attrs.evolve(named, backend="rack"))
    error = told_by(BEFORE["create"], world.trainer(rack), script)
    assert error.why.startswith(f"TypeError: create(...).{part} is {value!r}, where {kind}")


def test_a_refusal_that_says_little_is_one_all_the_same(world, script):
    rack = Rack()
    rack.answers = [CapacityError("full", why=None)]
    assert world.trainer(rack).submit(script, **ASKED).candidate.place == "west-b"


@pytest.mark.parametrize("part", ["ref", "candidate", "body", "names"])
def test_a_request_that_is_none_is_refused_before_it_is_sent(world, script, part):
    rack = Rack()
    rack.render = lambda start: attrs.evolve(Place.render(rack, start), **{part: None})
    error = told_by(BEFORE["render"], world.trainer(rack), script)
    assert error.why.startswith(f"TypeError: render(...).{part} is None, where ")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TransientError("busy", retry_after_s=math.nan), "TransientError.retry_after_s is nan"),
        (TransientError("busy", retry_after_s="soon"), "TransientError.retry_after_s is 'soon'"),
        (TransientError("busy", retry_after_s=1e300), "TransientError.retry_after_s is 1e+300"),
        (TransientError("busy", refills_in_s=-1), "TransientError.refills_in_s is -1"),
        (CapacityError("full", zones_available=None), "CapacityError.zones_available is None"),
        (CapacityError("full", zones_available=(3,)), "one of CapacityError.zones_available is 3"),
        (CapacityError("full", scope="zone"), "CapacityError.scope is 'zone'"),
        (QuotaExceededError("too small", limit="x"), "QuotaExceededError.limit is 'x'"),
    ],
)
@pytest.mark.parametrize("call", ["stage", "create"])
def test_an_error_of_ours_that_says_what_it_cannot_mean_names_its_backend(world, script, call, error, why):
    other = Place("other")
    told = told_by(BEFORE["create"], world.trainer(Rack(call, answer=error), other), script)
    assert told.why.startswith(f"TypeError: {why}, where ")
    assert other.asked == []
    assert world.slept == []


def submit_renamed(world, script, call, **renamed):
    """Submit under a key once one of the backend's calls answers another name; of a recorder's, once more."""
    keeps_records = call in ("there", "name_of")
    rack, other = Rack(board=world.board() if keeps_records else None), Place("other")
    trainer = world.trainer(rack, other)
    if keeps_records:
        rack.answers = [DOWN if call == "there" else None]
        with contextlib.suppress(ProviderError):
            trainer.submit(script, idempotency_key="k", **ASKED)
    honest = getattr(rack, call)
    named = attrs.evolve(JobRef(backend="rack", project="p", place="east-a", name=JOB), **renamed)

    def answering(*asked, **_named):
        if call in ("render", "complete"):
            return attrs.evolve(honest(*asked), ref=named)
        return (named,) if call == "find" else named

    setattr(rack, call, answering)
    error = told_by(lambda: trainer.submit(script, idempotency_key="k", **ASKED))
    assert len(rack.asked) == keeps_records
    assert other.asked == []
    return error.why


@pytest.mark.parametrize("call", ["render", "complete", "create", "there", "name_of"])
def test_a_job_by_another_name_than_its_id_is_refused_and_not_made_twice(world, script, call):
    why = submit_renamed(world, script, call, name="100")
    assert re.search(rf"{call}\(...\)(.ref)?.name is '100', where the job's id, '{JOB}', is due", why)


@pytest.mark.parametrize("call", ["complete", "create", "there", "name_of", "find"])
def test_a_job_of_another_backend_is_none_that_a_backend_answers(world, script, call):
    why = submit_renamed(world, script, call, backend="other")
    assert re.search(rf"{call}\(...\)(.ref)?.backend is 'other', where 'rack' is due", why)


def failing(*_asked):
    raise DOWN


@pytest.mark.parametrize("call", ["plan", "submit", "doctor"])
@pytest.mark.parametrize("function", ["price_of", "region_of", "network_of", "refuses", "asks", "find_gpu"])
def test_what_a_function_of_a_supply_raises_names_its_backend(world, script, function, call):
    rack, other = Rack(), Place("other")
    (offer,) = rack.supply.offers
    if function == "find_gpu":
        rack.supply = attrs.evolve(rack.supply, find_gpu=failing)
    elif function == "asks":
        limit = Limit(field="image", asks=failing, why="no containers", fix="leave it out")
        rack.supply = attrs.evolve(rack.supply, limits=(limit,))
    else:
        rack.supply = attrs.evolve(rack.supply, offers=(attrs.evolve(offer, **{function: failing}),))
    error = told_by(lambda: getattr(world.trainer(rack, other), call)(script, **ASKED))
    assert f"ask {function}(...)" in error.what
    assert other.asked == []


def telling(ability, answer):
    """A backend with an ability that is a property."""

    def told(_self):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return type("Telling", (Rack,), {ability: property(told)})()


@pytest.mark.parametrize("answer", [*UNFORESEEN, None, 7])
def test_an_emulator_that_cannot_be_told_names_its_backend(world, script, answer):
    (job, other), rack = job_of(world, script), telling("trial", answer)
    rack.asked = other.asked
    told_by(lambda: world.trainer(rack, Place("other")).plan(script, **ASKED))
    told_by(lambda: repr(attach(job.uri, backend=rack)))


@pytest.mark.parametrize("answer", [*UNFORESEEN, None, 7])
def test_a_place_for_images_that_cannot_be_told_names_its_backend(world, script, answer):
    trainer, image = world.trainer(telling("works", answer), Place("other")), Image(base="a:1")
    told_by(lambda: trainer.build(image))
    told_by(lambda: trainer.doctor(script, image=image, **ASKED))
    (note,) = trainer.plan(script, image=image, **ASKED).plan.notes
    assert "could not tell where images are built of the backend 'rack'" in note


def test_a_look_that_nobody_foresaw_changes_nothing(world, script):
    job, rack = job_of(world, script)
    job.refresh()
    rack.down = {"observe"}
    with contextlib.suppress(ProviderError):
        job.refresh()
    assert job.state is State.RUNNING


@pytest.mark.parametrize("answer", [DOWN, None])
@pytest.mark.parametrize("keeps_records", [True, False])
def test_a_job_that_may_have_been_made_is_asked_for_nowhere_else_and_is_found_again(
    world, script, keeps_records, answer
):
    rack, asked = Rack(board=world.board() if keeps_records else None), []

    def made_and_lost(request):
        asked.append(request)
        Place.create(rack, request)
        if answer is not None:
            raise answer

    rack.create = made_and_lost
    other = Place("other")
    trainer = world.trainer(rack, other)
    error = told_by(lambda: trainer.submit(script, idempotency_key="k", **ASKED))
    assert isinstance(error, UnforeseenError)
    assert asked[0].ref.uri in error.fix
    assert len(asked) == 1
    assert other.asked == []
    del rack.create
    again = trainer.submit(script, idempotency_key="k", **ASKED)
    assert again.uri == asked[0].ref.uri
    assert len(rack.made) == 1


class TooLong(Exception):
    pass


@pytest.mark.parametrize("error", [TooLong, SystemExit])
def test_what_a_handler_of_signals_raises_is_none_of_the_backends(world, script, monkeypatch, error):
    def handler(*_):
        raise error

    job, rack = job_of(world, script)
    before = signal.signal(signal.SIGALRM, handler)
    monkeypatch.setattr(rack, "logs", lambda *_: signal.raise_signal(signal.SIGALRM))
    try:
        with pytest.raises(error):
            list(job.logs())
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("answer", [DOWN, None])
@pytest.mark.parametrize("call", ["orphans", "clean_up"])
def test_a_backend_whose_orphans_cannot_be_told_hides_no_others_and_is_named(world, caplog, call, answer):
    rack, other, plain = Rack(call, answer=answer), Rack(name="other"), Place("plain")
    told = getattr(world.trainer(rack, plain, other), call)()
    assert told == other.orphans()
    (left,) = told.left_out
    assert left.startswith("rack: could not ")
    assert f"left out: {left}" in str(told.table)
    assert left in caplog.text
    told_by(getattr(world.trainer(rack, plain), call))


@pytest.mark.parametrize("answer", [DOWN, None])
def test_a_backend_whose_quotas_cannot_be_told_hides_no_others_and_is_named(world, answer):
    rack = Rack("quotas", answer=answer)
    other = Rack("quotas", name="other", answer=Quotas(standings=(), unread=("a zone",)))
    told = world.trainer(rack, other).quotas("L4:1").unread
    assert [one.partition(":")[0] for one in told] == ["rack", "a zone"]


@pytest.mark.parametrize("answer", [DOWN, None])
def test_a_backend_that_cannot_look_beforehand_is_a_row_of_what_the_others_see(world, answer):
    well = Check(subject="its disks", finding=Finding.OK)
    other = Rack("preflight", name="other", answer=(well,))
    unseen, seen = world.trainer(Rack("preflight", answer=answer), other).doctor()
    assert (unseen.finding, unseen.backend, seen.subject) == (Finding.UNKNOWN, "rack", "its disks")
    assert unseen.why.startswith("could not be looked at: ")
    assert unseen.fix


def test_a_service_tells_which_backends_it_could_not_look_after(world):
    assert world.trainer(Rack("find"), Place("other")).supervise().left_out


@pytest.mark.parametrize("answer", [*UNFORESEEN, SystemExit(3)])
def test_a_backend_whose_jobs_cannot_be_listed_hides_no_others(world, script, answer):
    other = Place("other")
    there = world.trainer(other).submit(script, **ASKED)
    found = world.trainer(Rack("find", answer=answer), other).jobs()
    assert [job.uri for job in found] == [there.uri]
    assert [one.partition(":")[0] for one in found.left_out] == ["rack"]
