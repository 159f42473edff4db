"""Watching many VM jobs costs few calls, in every phase of their lives, and tells of each in time."""

import json
from datetime import datetime, timezone

import pytest

from gputrain.backends.compute.cache import FEW
from gputrain.gcp import Objects
from gputrain.gcp.pace import AT_ONCE
from gputrain.job.events import Changes
from gputrain.keeper.status import SCHEMA
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator.clock import zulu_time
from tests.unit.steps import Steps

JOBS = 24
MINUTES = 3
MOST_A_MINUTE = 150


@pytest.fixture
def road(cloud, make, code):
    cloud.compute.settings.quotas = False
    for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 10_000)
    return Steps(make())


@pytest.fixture
def watchers(cloud, road, make, code):
    """Handles of many jobs in one process, as `Job.wait` has them."""
    spec = TrainingSpec(
        script=code, gpu="L4:1", machine_type="g2-standard-4", provisioning_model="spot", max_restarts=1,
        max_run_duration="3h", max_wait_duration="2h",
    )  # fmt: skip
    refs = [road.submit(spec, job_id=f"job-{number}") for number in range(JOBS)]
    now = lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc)  # noqa: E731
    trainer = Trainer(make(), sleep=cloud.clock.advance, now=now)
    return [trainer.attach(ref.uri) for ref in refs]


def is_a_look(method):
    """No call by which a round asks for machines: those write, and follow an operation."""
    return method.endswith((".get", "ist")) and not method.endswith("Operations.get")


def watch(cloud, jobs, minutes=MINUTES, counts=lambda _: True):
    """Look at each every 5 s, as `wait` does; requests a minute that count, all together."""
    start, began = len(cloud.requests), cloud.clock.now()
    while cloud.clock.now() - began < minutes * 60:
        for job in jobs:
            job.refresh()
            job.supervise()
        cloud.clock.advance(5)
    asked = [one.method for one in cloud.requests[start:]]
    return sum(map(counts, asked)) / (cloud.clock.now() - began) * 60


def say(cloud, backend, ref, **document):
    backend._access.post(
        f"{cloud.endpoints.storage}/upload/storage/v1/b/my-bucket/o", action="say what a guest says",
        params={"uploadType": "media", "name": f"jobs/{ref.name}/attempt-0/status-0.json"},
        data=json.dumps({"schema": SCHEMA, **document}).encode(),
    )  # fmt: skip


def show(cloud, status):
    """Have all VMs shown so."""
    for vm in cloud.compute.vms.values():
        vm.resource["status"] = status


def test_many_jobs_whose_guests_have_not_reported_cost_few_calls_and_are_seen_to_run(cloud, road, watchers):
    cloud.clock.advance(120)
    assert watch(cloud, watchers, 1) <= MOST_A_MINUTE
    assert watch(cloud, watchers) <= MOST_A_MINUTE
    assert {job.state for job in watchers} == {State.PROVISIONING}
    began = cloud.clock.now() - 30
    for job in watchers:
        said = {"waiting_at": zulu_time(began - 30), "running_at": zulu_time(began)}
        say(cloud, road.backend, job.ref, phase="running", **said)
    assert watch(cloud, watchers, 2) <= MOST_A_MINUTE
    assert {job.state for job in watchers} == {State.RUNNING}
    assert {int(job.started_at.timestamp()) for job in watchers} == {int(began)}  # however old its first look


def test_many_jobs_that_are_taken_up_while_they_are_made_are_told_by_the_lists_that_they_share(
    cloud, make, watchers
):
    show(cloud, "STAGING")
    trainer, start = Trainer(make(), sleep=cloud.clock.advance), len(cloud.requests)
    fresh = [trainer.attach(job.uri) for job in watchers]
    events = [Changes(job, job.now).next() for job in fresh]
    assert len(cloud.requests) - start <= AT_ONCE + FEW + 5  # who has a turn reads; lists are for all
    assert {(one.state, one.cost_usd) for one in events} == {(State.PROVISIONING, 0.0)}
    show(cloud, "RUNNING")
    start = len(cloud.requests)
    cloud.clock.advance(5)
    for job in fresh:
        job.refresh()
    assert len(cloud.requests) - start <= 2 * 5 + 1  # as many turns as seconds, each a record and a word
    assert {job.detail for job in fresh} == {"VMs running"}


def test_many_jobs_that_are_interrupted_and_wait_for_room_cost_few_calls(cloud, watchers):
    cloud.clock.advance(120)
    watch(cloud, watchers, 1)
    for job in watchers:
        cloud.preempt(f"{job.ref.name}-0-0")
    cloud.clock.advance(120)
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", "g2-standard-4", 0)
    watch(cloud, watchers, 12)  # each asks every zone again, in rounds that grow rare
    before = len(cloud.requests)
    assert watch(cloud, watchers, counts=is_a_look) <= MOST_A_MINUTE
    assert "compute.instances.bulkInsert" in {one.method for one in cloud.requests[before:]}
    assert {job.state for job in watchers} == {State.INTERRUPTED}


def test_many_jobs_that_are_being_cancelled_cost_few_calls_and_are_seen_to_end(cloud, make, watchers):
    cloud.clock.advance(120)
    watch(cloud, watchers, 1)
    cloud.compute.settings.delete_s = 400.0
    for job in watchers:
        make().cancel(job.ref)
    watch(cloud, watchers, 1)
    assert watch(cloud, watchers, 4) <= MOST_A_MINUTE
    cloud.clock.advance(400)
    watch(cloud, watchers, 1)
    assert {job.state for job in watchers} == {State.CANCELLED}


@pytest.mark.parametrize(
    ("status", "phase", "asked"), [("STAGING", "", 0), ("RUNNING", "", 1), ("RUNNING", "running", 0)]
)
def test_a_look_costs_no_call_of_the_jobs_own_unless_its_guest_boots(
    cloud, road, make, code, status, phase, asked
):
    ref = road.submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h"), job_id="bert-1")
    show(cloud, status)
    if phase:
        say(cloud, road.backend, ref, phase=phase)
    watcher = make()
    seen = watcher.observe(ref)
    cloud.clock.advance(5)
    before = len(cloud.requests)
    assert watcher.observe(ref) == seen
    own = [one.method for one in cloud.requests[before:] if one.method != "compute.instances.list"]
    assert own == ["storage.objects.get"] * asked


def test_a_change_of_its_vms_is_seen_at_the_next_look(cloud, road, make, code):
    ref = road.submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h"), job_id="bert-1")
    watcher = make()
    for status in ("PROVISIONING", "STAGING", "RUNNING", "STOPPING", "RUNNING"):
        show(cloud, status)
        cloud.clock.advance(5)
        assert watcher.observe(ref).detail == f"VMs {status.lower()}"


def test_one_job_among_few_is_seen_to_run_at_the_next_look(cloud, road, make, code):
    ref = road.submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h"), job_id="bert-1")
    job = Trainer(make()).attach(ref.uri)
    cloud.clock.advance(120)
    assert job.refresh().state is State.PROVISIONING
    say(cloud, road.backend, ref, phase="running", running_at=zulu_time(cloud.clock.now()))
    cloud.clock.advance(5)
    assert job.refresh().state is State.RUNNING


WORD = b'{"schema": 2, "phase": "running"}'
NONE = (WORD.ljust(1_000_001), b"[" * 100_000, b'"running"', b"\xff")


def test_what_no_guest_writes_is_not_its_word(cloud, road, make, code):
    ref = road.submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h"), job_id="bert-1")
    cloud.clock.advance(120)
    written, told = Objects(make()._access, "my-bucket"), []
    for words in (WORD.ljust(1_000_000), *NONE):
        written.write("jobs/bert-1/attempt-0/status-0.json", words, if_generation=None)
        told.append(make().observe(ref).state)
    assert told == [State.RUNNING, *[State.PROVISIONING] * len(NONE)]


@pytest.mark.parametrize("off_s", [-86400, 0, 86400], ids=["behind", "right", "ahead"])
def test_a_guests_clock_that_is_a_day_off_moves_neither_money_nor_time(cloud, road, make, code, off_s):
    ref = road.submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="2h"), job_id="bert-1")
    job = Trainer(make()).attach(ref.uri)
    job.now = lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc)
    cloud.clock.advance(60)
    began = cloud.clock.now() + off_s
    told = {"waiting_at": zulu_time(began - 30), "running_at": zulu_time(began)}
    say(cloud, road.backend, ref, phase="running", **told)
    cloud.clock.advance(1800)
    job.refresh()
    assert 1700 <= job.duration.total_seconds() <= 2000
    result = {"state": "done", "exit_code": 0}
    ended = {"ended_at": zulu_time(began + 1800), "why": "", "exit_code": 0, "result": result}
    say(cloud, road.backend, ref, phase="ended", **told, **ended)
    cloud.compute.vms.clear()
    cloud.clock.advance(3600)
    job.refresh()
    assert job.state is State.SUCCEEDED, job.detail
    assert 1700 <= job.duration.total_seconds() <= 2000


def test_an_attempt_whose_guest_was_a_day_behind_is_started_again(cloud, road, make, code):
    fields = {"provisioning_model": "spot", "max_restarts": 1, "max_run_duration": "2h"}
    ref = road.submit(TrainingSpec(script=code, gpu="L4:1", **fields), job_id="bert-1")
    job = Trainer(make()).attach(ref.uri)
    cloud.clock.advance(60)
    began = zulu_time(cloud.clock.now() - 86400)
    say(cloud, road.backend, ref, phase="running", waiting_at=began, running_at=began)
    cloud.clock.advance(600)
    (vm,) = cloud.compute.vms.values()
    cloud.preempt(vm.name)
    cloud.clock.advance(300)
    assert job.refresh().state is State.INTERRUPTED
