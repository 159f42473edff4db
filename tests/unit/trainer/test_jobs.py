"""Which jobs a list holds."""

import contextlib
import gc
import threading
import time
from datetime import timedelta

import pytest

from gputrain import (
    AuthError,
    GputrainError,
    JobLostError,
    Local,
    PermissionDeniedError,
    ProviderError,
    RequestError,
    SpecError,
    State,
    Trainer,
    TransientError,
)
from gputrain.backends.base import Orphan
from gputrain.backends.local.backend import RECORDS, FolderRecorder
from gputrain.job.watching import Watching
from gputrain.lifecycle import Failure, Observation
from gputrain.records.folder import FolderBoard
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.unit.trainer.conftest import L4
from tests.unit.trainer.places import Place, World


def test_a_list_holds_the_jobs_of_all_its_labels_and_from_its_time_on(cloud, trainer, script, now):
    for team in ("a", "b"):
        trainer("compute").submit(script, **L4, labels={"team": team, "at": "work"})
        cloud.clock.advance(3600)

    def count(**asked):
        return len(trainer("compute").jobs(**asked))

    assert count() == count(labels={}) == count(labels={"at": "work"}) == 2
    assert count(labels={"team": "a"}) == count(labels={"team": "a", "at": "work"}) == 1
    assert count(labels={"team": "a", "at": "home"}) == count(labels={"team": "c"}) == 0
    assert count(since=now() - timedelta(hours=3)) == 2
    assert count(since=now() - timedelta(minutes=90)) == 1
    assert count(since=now() - timedelta(minutes=90), labels={"team": "a"}) == count(since=now()) == 0


def test_jobs_of_all_backends_are_listed_newest_first(cloud, trainer, script):
    names = ("vertex", "compute", "vertex", "compute")
    made = []
    for name in names:
        made.append(trainer(name).submit(script, **L4).id)
        cloud.clock.advance(60)
    for order in (names[:2], names[1:3]):
        assert [job.id for job in trainer(*order).jobs()] == made[::-1]


LISTS = "aiplatform.customJobs.list"
FORBIDDEN = faults.Refuse(error=ApiError(403, "Permission 'aiplatform.customJobs.list' denied"))


def test_a_backend_that_cannot_be_listed_hides_no_job_of_another_and_is_named(cloud, trainer, script, caplog):
    seen = trainer("compute").submit(script, **L4)
    trainer("vertex").submit(script, **L4)
    cloud.fail(LISTS, FORBIDDEN, times=None)
    jobs = trainer("vertex", "compute").jobs()
    assert jobs == [seen]
    (told,) = jobs.left_out
    assert told.startswith("vertex: ")
    assert f"left out: {told}" in str(jobs.table)
    assert told in caplog.text
    with pytest.raises(PermissionDeniedError):
        trainer("vertex").jobs()


FOUND_IN = {"vertex": (LISTS, "customJobs"), "compute": ("storage.objects.list", "items")}


@pytest.mark.parametrize(("kind", "other"), [("vertex", "compute"), ("compute", "vertex")])
def test_a_list_that_is_not_whole_is_told_and_hides_no_job_that_it_shows(cloud, trainer, script, kind, other):
    unseen = trainer(kind).submit(script, **L4)
    cloud.clock.advance(60)
    seen = trainer(kind).submit(script, **L4)
    method, items = FOUND_IN[kind]

    def cut(document):
        """Some of it, and then the same page for ever."""
        shown = [one for one in document.get(items, []) if seen.id in str(one)]
        return {items: shown, "nextPageToken": "MA=="}

    cloud.fail(method, faults.Reshape(change=cut), times=None)
    jobs = trainer(kind).jobs()
    assert jobs == [seen]
    assert [one.partition(":")[0] for one in jobs.left_out] == [kind]
    assert trainer(kind, other).jobs(name=unseen.id).left_out == jobs.left_out
    with pytest.raises(TransientError) as caught:
        trainer(kind).jobs(name=unseen.id)
    assert caught.value.kind == "incomplete_list"


def test_a_roll_tells_of_what_it_can_list_and_of_no_old_end_once_it_can_list_all(cloud, trainer, script):
    old = trainer("vertex").submit(script, **L4)
    cloud.clock.advance(3600)
    assert old.refresh().state.is_terminal
    cloud.fail(LISTS, FORBIDDEN, times=None)
    told = set()
    roll = trainer("vertex", "compute").watch(lambda event: told.add(event.id))

    def is_told(job):
        until = time.monotonic() + 30
        while job.id not in told and time.monotonic() < until:
            roll.refresh()
        return job.id in told

    try:
        assert is_told(trainer("compute").submit(script, **L4))
        cloud.world.faults.clear()
        assert is_told(trainer("vertex").submit(script, **L4))
    finally:
        roll.close()
    assert old.id not in told


def test_a_roll_keeps_nothing_of_jobs_that_have_ended(cloud, trainer, script):
    def kept():
        return sum(type(one) is Watching for one in gc.get_objects())

    ends, before = threading.Semaphore(0), kept()
    roll = trainer("vertex").watch(lambda event: event.state.is_terminal and ends.release())
    try:
        roll.refresh()  # whatever it meets from now on is new
        for _ in range(3):
            trainer("vertex").submit(script, **L4)
            while kept() == before:  # until it is met
                roll.refresh()
            cloud.clock.advance(3600)
            # It goes on as clocks do: what was on its way at the leap would be fresh for ever.
            assert any(ends.acquire(timeout=0.5) or cloud.clock.advance(60) for _ in range(60))
        assert kept() == before
        ids = {job.id for job in trainer("vertex").jobs()}
        cloud.vertex.jobs.clear()
        for _ in range(2):
            cloud.clock.advance(60)
            roll.refresh()
        assert len(ids) == 3
        assert not roll._known & ids
    finally:
        roll.close()


class Refusing(Local):
    """This machine, where one job cannot be looked at."""

    fault = GputrainError("unset")

    def observe(self, ref):
        if ref.name.startswith("refused"):
            raise self.fault
        return super().observe(ref)


@pytest.mark.parametrize(
    ("fault", "is_raised"),
    [
        (TransientError("no network"), True),
        (AuthError("the login has expired"), True),
        (PermissionDeniedError("not yours"), True),
        (RequestError("no such thing"), False),
        (SpecError("its spec is none"), False),
        (ProviderError("what is that"), False),
        (JobLostError("gone"), False),
    ],
)
def test_a_job_that_cannot_be_looked_at_hides_no_other_and_alone_is_not_taken_for_gone(
    script, fault, is_raised
):
    here = Refusing(gpus=0)
    here.fault = fault
    Trainer(here).submit(script, name="refused")
    with pytest.raises(type(fault)) if is_raised else contextlib.nullcontext():
        assert Trainer(here).jobs() == []
    other = Trainer(here).submit(script, name="other")
    assert [job.id for job in Trainer(here).jobs()] == [other.id]
    assert Trainer(here).supervise() == []
    other.wait(timeout="5m")


class Patchy(FolderBoard):
    """Records, of which one cannot be read just now."""

    down = False
    reads = 0

    def read(self, job_id):
        Patchy.reads += 1
        if Patchy.down and job_id.startswith("hidden"):
            raise TransientError("no network")
        return super().read(job_id)


class PatchyRecorder(FolderRecorder):
    @property
    def board(self):
        return Patchy(self.root / RECORDS)


class Patched(Local):
    def recorder(self):
        told = super().recorder()
        return PatchyRecorder(told.root, told.ref)


def test_a_record_that_cannot_be_read_now_ends_no_list_and_is_read_when_it_can(script, monkeypatch):
    here = Trainer(Patched(gpus=0))
    hidden, other = (here.submit(script, name=name, labels={"team": "a"}) for name in ("hidden", "other"))
    for job in (hidden, other):
        job.wait(timeout="5m")
    monkeypatch.setattr(Patchy, "down", True)
    found = here.jobs()
    assert {job.id for job in found} == {hidden.id, other.id}
    assert here.supervise() == []
    assert hidden.id in str(found.table)
    assert {one["id"] for one in found.to_dicts()} == {hidden.id, other.id}
    assert [job.id for job in here.jobs(labels={"team": "a"})] == [other.id]
    assert [job.id for job in here.jobs(since="1h")] == [other.id]
    monkeypatch.setattr(Patchy, "down", False)
    assert {job.id: dict(job.labels) for job in found} == {one.id: {"team": "a"} for one in (hidden, other)}
    assert {job.id for job in here.jobs(labels={"team": "a"})} == {hidden.id, other.id}


def test_a_list_reads_no_record_unless_it_is_asked_for_what_is_in_them(script, monkeypatch):
    here = Trainer(Patched(gpus=0))
    here.submit(script).wait(timeout="5m")
    monkeypatch.setattr(Patchy, "reads", 0)
    assert len(here.jobs()) == 1
    assert Patchy.reads == 0
    assert len(here.jobs(labels={"team": "a"})) == 0
    assert Patchy.reads > 0


def test_a_list_tells_of_each_job_where_it_is_and_what_it_costs(script):
    world = World()
    place = Place("compute", world.board(), price_usd_h=2.0)
    trainer = world.trainer(place)
    job = trainer.submit(script, name="bert", gpu="L4:1", max_run_duration="3h")
    began = world.now()
    place.seen = Observation(state=State.SUCCEEDED, started_at=began, ended_at=began + timedelta(minutes=90))
    (row,) = trainer.jobs().table.rows
    assert row == (
        job.id, "succeeded", "compute east-a", "1 x L4", f"{began:%Y-%m-%d %H:%M}", "1:30:00", "3.00",
    )  # fmt: skip
    place.seen = Observation(state=State.QUEUED)
    listed = Place("compute")  # it keeps no records
    listed.asked, listed.made, listed.seen = place.asked, place.made, place.seen
    (row,) = world.trainer(listed).jobs().table.rows
    assert row == (job.id, "queued", "compute east-a", "", "", "", "")


def test_a_list_holds_those_states_that_are_asked_for_and_those_made_since(script):
    world = World()
    place = Place("compute", world.board())
    trainer = world.trainer(place)
    first = trainer.submit(script, gpu="L4:1", max_run_duration="1h")
    world.seconds += 3600
    second = trainer.submit(script, gpu="L4:1", max_run_duration="1h")
    states = {first.id: State.RUNNING, second.id: State.FAILED}
    place.observe = lambda ref: Observation(state=states[ref.name])

    def ids(**asked):
        return {job.id for job in trainer.jobs(**asked)}

    assert ids() == ids(state=["running", State.FAILED]) == {first.id, second.id}
    assert ids(state="running") == ids(state=[State.RUNNING]) == ids(state=[None, "running"]) == {first.id}
    assert ids(state="queued") == set()
    assert ids(since="1h") == {first.id, second.id}
    assert ids(since="59m") == ids(since=world.now()) == {second.id}
    for wrong, field in (
        ({"state": "dead"}, "state"),
        ({"labels": ["team"]}, "labels"),
        ({"since": 7}, "since"),
    ):
        with pytest.raises(SpecError) as caught:
            trainer.jobs(**wrong)
        assert [fault.field for fault in caught.value.faults] == [field]


def test_what_one_backend_refuses_to_list_hides_nothing_where_somebody_asks_for_it(script):
    world = World()
    here, there = Place("compute", world.board()), Place("vertex")
    job = world.trainer(here).submit(script, gpu="L4:1", max_run_duration="1h")
    refusal = PermissionDeniedError("you may not")

    def refuse(**_):
        raise refusal

    there.find, refused = refuse, {}
    road = world.trainer(here, there)._road
    assert ([one.id for one in road.listed("", refused)], refused) == ([job.id], {"vertex": refusal})
    assert [one.id for one in road.listed(job.id, {})] == [job.id]
    for alone, asked in ((road, None), (world.trainer(there)._road, {})):
        with pytest.raises(PermissionDeniedError, match="you may not"):
            list(alone.listed("", asked))


def test_a_service_starts_what_was_interrupted_and_says_of_what_it_could_not(script, caplog):
    world = World()
    place = Place("compute", world.board())
    trainer = world.trainer(place)
    jobs = [trainer.submit(script, gpu="L4:1", max_run_duration="1h", max_restarts=1) for _ in range(2)]
    place.seen = Observation(
        state=State.INTERRUPTED, failure=Failure(kind="preempted"), started_at=world.now()
    )
    refused = []

    def tidy(ref, seen):
        refused.append(ref.name)
        if len(refused) == 1:
            raise TransientError("later")

    place.tidy = tidy
    (started,) = trainer.supervise()
    assert {started.id, refused[0]} == {job.id for job in jobs}
    assert f"{refused[0]} could not be looked after: later" in caplog.text


def test_orphans_of_all_backends_are_listed_and_those_that_a_person_has_seen_removed():
    class Tidy(Place):
        def orphans(self):
            return (self.orphan,)

        def clean_up(self, only=None):
            return tuple(one for one in self.orphans() if only is None or one in only)

    world, found = World(), []
    for name in ("compute", "vertex"):
        place = Tidy(name)
        place.orphan = Orphan(name=name, place="east-a", job_id="j", status="running", price=None)
        found.append(place)
    trainer = world.trainer(Place("slurm"), *found)
    both = tuple(one.orphan for one in found)
    assert trainer.orphans() == trainer.clean_up() == trainer.clean_up(both) == both
    assert (trainer.clean_up(both[:1]), trainer.clean_up([])) == (both[:1], ())


def test_a_listener_is_told_of_a_job_from_its_submit_on_and_a_roll_until_it_is_closed(script):
    world = World()
    place = Place("compute", world.board())
    trainer, told = world.trainer(place), {"job": threading.Event(), "roll": threading.Event()}
    ids = []
    roll = trainer.watch(lambda event: (ids.append(event.id), told["roll"].set()))
    place.find = lambda **_: ()  # no list is needed to tell of what is submitted here
    job = trainer.submit(
        script, gpu="L4:1", max_run_duration="1h", on_change=lambda _event: told["job"].set()
    )
    try:
        assert all(one.wait(30) for one in told.values())
        assert set(ids) == {job.id}
        roll.close()
        assert not trainer._rolls
        del place.find
        after = trainer.submit(script, gpu="L4:1", max_run_duration="1h")
        roll.refresh()
        assert after.id not in ids
    finally:
        roll.close()
        place.seen = Observation(state=State.SUCCEEDED)
        job.wait(timeout=30)
