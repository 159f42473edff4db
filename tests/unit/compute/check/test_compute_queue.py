"""A gang in Google's flex-start queue: whole or not at all, once, and withdrawn whole."""

import json

import attrs
import pytest
from google.cloud.compute_v1 import InstanceGroupManagerResizeRequestsClient

from gputrain.errors import GputrainError, NoFitError, PermissionDeniedError, TransientError
from gputrain.gcp import Objects
from gputrain.lifecycle import State
from gputrain.records import CANCELLED, WITHDRAWN, RecordError, ended
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer, attach
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.unit.steps import NONCE, Steps

ZONE, MACHINE = "us-central1-a", "g2-standard-4"
NAMES = ["bert-1-0-0", "bert-1-0-1"]
TEMPLATE = "compute.instanceTemplates"
GROUP = "compute.instanceGroupManagers"
REQUEST = "compute.instanceGroupManagerResizeRequests"
THREE = (TEMPLATE, GROUP, REQUEST)


@pytest.fixture(autouse=True)
def room(cloud):
    for metric in ("PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 100)


@pytest.fixture
def spec(code):
    def make(**fields):
        given = {"script": code, "gpu": "L4:1", "machine_type": MACHINE, "num_nodes": 2}
        return TrainingSpec(
            **{**given, "provisioning_model": "flex-start", "max_run_duration": "1h", **fields}
        )

    return make


def full(cloud, count=0):
    for zone in ("us-central1-a", "us-central1-b", "us-central1-c"):
        cloud.stock(zone, MACHINE, count)


def things(cloud):
    """What is there of groups, templates, requests and VMs."""
    kinds = ("instanceTemplates", "instanceGroupManagers", "instanceGroupManagerResizeRequests")
    left = [name for kind in kinds for name in cloud.compute.resources[kind]]
    return sorted([one.rpartition("/")[2] for one in left] + [vm.name for vm in cloud.compute.vms.values()])


def made(cloud):
    return [one.method for one in cloud.requests if one.method in [f"{kind}.insert" for kind in THREE]]


def test_what_is_asked_for(road, spec):
    body = road.backend.complete(road.request(spec(), "bert-1")).body
    template, group, asked = body["template"], body["group"], body["resource"]
    name = f"bert-1-{NONCE}"
    assert {template["name"], group["name"], asked["name"]} == {name}
    assert (group["targetSize"], group["versions"]) == (
        0,
        [{"instanceTemplate": f"global/instanceTemplates/{name}"}],
    )
    assert group["instanceLifecyclePolicy"] == {"defaultActionOnFailure": "DO_NOTHING"}
    assert asked["instances"] == [{"name": one} for one in NAMES]
    assert asked["requestedRunDuration"] == {"seconds": "3600"}
    scheduling = template["properties"]["scheduling"]
    assert (scheduling["provisioningModel"], scheduling["onHostMaintenance"]) == ("FLEX_START", "TERMINATE")
    assert (scheduling["maxRunDuration"], scheduling["instanceTerminationAction"]) == (
        {"seconds": "3600"},
        "DELETE",
    )
    assert template["properties"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert template["properties"]["labels"]["gputrain-gang"] == NONCE


def test_a_short_run_is_asked_for_as_long_as_google_takes_it(road, spec):
    body = road.backend.complete(road.request(spec(max_run_duration="2m"), "bert-1")).body
    assert body["resource"]["requestedRunDuration"] == {"seconds": "600"}


def test_a_gang_waits_and_then_runs_under_the_names_that_were_known(cloud, road, spec):
    full(cloud, 1)
    ref = road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(120)
    waiting = road.backend.observe(ref)
    assert waiting.state is State.QUEUED
    assert waiting.detail.startswith(
        "2 g2-standard-4 wait in Google's queue, all or none, and cost nothing; The zone"
    )
    assert not cloud.compute.vms
    full(cloud, 2)
    cloud.clock.advance(60)
    assert sorted(vm.name for vm in cloud.compute.vms.values()) == NAMES
    assert road.backend.observe(ref).state is State.PROVISIONING
    assert cloud.cost_usd < 1


@pytest.mark.parametrize("method", THREE)
@pytest.mark.parametrize("fault", [faults.DropBeforeCommit(), faults.DropAfterCommit()])
def test_a_lost_answer_makes_no_second_gang(cloud, road, spec, method, fault):
    cloud.fail(f"{method}.insert", fault, times=2)
    ref = road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(120)
    assert sorted(vm.name for vm in cloud.compute.vms.values()) == NAMES
    assert road.backend.find() == (ref,)


@pytest.mark.parametrize("method", THREE)
def test_a_refusal_leaves_nothing(cloud, road, spec, method):
    refusal = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))
    cloud.fail(f"{method}.insert", refusal, times=None)
    with pytest.raises(PermissionDeniedError):
        road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(60)
    assert things(cloud) == []


@pytest.mark.parametrize("is_running", [False, True])
def test_a_cancel_withdraws_it_whole(cloud, road, spec, is_running):
    full(cloud, 2 if is_running else 0)
    ref = road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(120)
    road.backend.cancel(ref)
    full(cloud, 9)
    cloud.clock.advance(600)
    assert not cloud.compute.vms
    assert road.backend.observe(ref).state is State.CANCELLED
    assert [one.status for one in road.backend.clean_up()] in ([], ["QUEUE"])
    assert things(cloud) == []


def test_a_cancel_that_was_refused_is_done_by_whoever_waits(cloud, road, spec):
    full(cloud)
    ref = road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(60)
    refusal = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))
    cloud.fail(f"{GROUP}.delete", refusal, times=1)
    with pytest.raises(PermissionDeniedError):
        road.backend.cancel(ref)
    road.supervise(ref)
    full(cloud, 9)
    cloud.clock.advance(600)
    assert things(cloud) == []
    assert road.backend.observe(ref).state is State.CANCELLED


@pytest.mark.parametrize("method", [f"{TEMPLATE}.get", f"{GROUP}.delete", f"{REQUEST}.cancel"])
def test_who_is_refused_the_queue_still_deletes_the_vms(cloud, road, spec, method):
    ref = road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(120)
    refusal = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))
    cloud.fail(method, refusal, times=None)
    with pytest.raises(PermissionDeniedError):
        road.backend.cancel(ref)
    cloud.clock.advance(120)
    assert not cloud.compute.vms


def test_nobody_waits_longer_than_the_spec_allows(cloud, road, spec):
    full(cloud)
    ref = road.submit(spec(max_wait_duration="2h"), job_id="bert-1")
    cloud.clock.advance(7100)
    assert road.backend.observe(ref).state is State.QUEUED
    cloud.clock.advance(200)
    road.backend._glances.forget(ref.name)
    late = road.backend.observe(ref)
    assert (late.state, "longer than max_wait_duration" in late.detail) == (State.QUEUED, True)
    wrote, nonce = road.backend._stored, road.backend.recorder().board.read("bert-1").latest.nonce
    lock = json.dumps({"nonce": nonce, "token": "0a"}).encode()
    wrote.write("jobs/bert-1/attempt-0/lock", lock, if_generation=0)  # of VMs that Google took back
    road.supervise(ref)
    assert wrote.list("jobs/bert-1/attempt-0/").seen == ()
    assert attach(ref.uri, backend=road.backend).state is State.EXPIRED
    assert road.backend.observe(ref).failure.kind == "wait_limit"
    full(cloud, 9)
    cloud.clock.advance(600)
    assert things(cloud) == []
    assert cloud.cost_usd == 0


def test_an_old_look_ends_no_wait_that_began_since(cloud, road, spec):
    full(cloud)
    ref = road.submit(spec(max_wait_duration="2h"), job_id="bert-1")
    cloud.clock.advance(7300)
    late = road.backend.observe(ref)
    assert late.raw["queue"]["is_late"]
    board = road.backend.recorder().board
    road.backend._remains.leave_queue(board, "bert-1", attrs.evolve(late, ask="00000000beef"))
    assert (board.read("bert-1").over, len(things(cloud))) == ("", 3)
    record = board.read("bert-1")  # a Ctrl-C took that ask back, and others go on with the job
    board.write(record.answered(WITHDRAWN))
    road.backend._remains.leave_queue(board, "bert-1", late)
    assert board.read("bert-1").over == ""
    board.write(attrs.evolve(record, generation=board.read("bert-1").generation))
    road.backend._remains.leave_queue(board, "bert-1", late)
    assert board.read("bert-1").over == "wait_limit"


def test_a_wait_that_is_too_long_is_not_ended_while_google_serves_it(cloud, road, spec):
    full(cloud)
    ref = road.submit(spec(max_wait_duration="2h"), job_id="bert-1")
    cloud.clock.advance(7300)
    served = faults.Refuse(error=ApiError(400, "The request is in state CREATING.", reason="invalid"))
    cloud.fail(f"{REQUEST}.cancel", served, times=None)
    road.supervise(ref)
    assert road.backend.observe(ref).state is State.QUEUED
    assert len(things(cloud)) == 3


def test_who_submits_it_once_more_after_the_wait_asks_anew(cloud, make, spec):
    full(cloud)
    trainer = Trainer(make())
    job = trainer.submit(spec(max_wait_duration="2h"), idempotency_key="bert")
    cloud.clock.advance(7300)
    job.refresh()
    job.supervise()
    assert job.refresh().state is State.EXPIRED
    full(cloud, 9)
    again = Trainer(make()).submit(spec(max_wait_duration="2h"), idempotency_key="bert")
    cloud.clock.advance(120)
    assert again.refresh().state is State.PROVISIONING
    assert len(cloud.compute.vms) == 2


def test_what_a_person_cancels_is_cancelled(cloud, road, spec):
    full(cloud)
    ref = road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(60)
    (name,) = cloud.compute.queued
    requests = InstanceGroupManagerResizeRequestsClient(
        credentials=cloud.credentials, client_options=cloud.client_options
    )
    asked = dict(zip(("project", "zone", "instance_group_manager", "resize_request"), name.split("/")[1::2]))
    requests.cancel_unary(**asked)
    seen = road.backend.observe(ref)
    assert (seen.state, seen.failure.kind) == (State.CANCELLED, "stopped_by_person")
    road.supervise(ref)
    cloud.clock.advance(60)
    assert things(cloud) == []
    assert road.backend.observe(ref).failure.kind == "stopped_by_person"


def test_a_request_that_google_gives_up_sends_the_job_to_the_next_place(cloud, make, spec):
    trainer = Trainer(make(regions=["us-central1", "us-east1"]))
    full(cloud)
    job = trainer.submit(spec())
    cloud.clock.advance(60)
    (path, queued) = next(iter(cloud.compute.queued.items()))
    error = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "The zone does not have enough resources."}
    document = cloud.compute.resources["instanceGroupManagerResizeRequests"][path]
    document.update(state="FAILED", status={"error": {"errors": [error]}})
    del cloud.compute.queued[path]
    job.refresh()
    assert job.supervise()
    assert job.place != ZONE
    assert queued.group not in cloud.compute.resources["instanceGroupManagers"]


def test_another_process_takes_up_a_gang_that_waits(cloud, make, spec):
    full(cloud)
    first = Trainer(make()).submit(spec(), idempotency_key="bert")
    again = Trainer(make()).submit(spec(), idempotency_key="bert")
    assert first.uri == again.uri
    assert made(cloud) == [f"{one}.insert" for one in THREE]


def test_what_a_killed_client_left_is_taken_up_by_the_next(cloud, make, spec):
    cloud.fail(
        f"{REQUEST}.insert", faults.Refuse(error=ApiError(503, "backend", reason="backendError")), times=None
    )
    with pytest.raises(GputrainError):
        Trainer(make(), sleep=cloud.clock.advance).submit(spec(), idempotency_key="bert")
    cloud.world.faults.clear()
    job = Trainer(make()).submit(spec(), idempotency_key="bert")
    cloud.clock.advance(120)
    assert len(cloud.compute.vms) == 2
    assert job.refresh().state is State.PROVISIONING


def test_what_lives_is_no_orphan_and_what_is_over_is(cloud, make, spec):
    full(cloud)
    trainer = Trainer(make())
    job = trainer.submit(spec())
    cloud.clock.advance(60)
    assert trainer.orphans() == trainer.clean_up() == ()
    ended(make().recorder().board, job.name, CANCELLED)
    (orphan,) = trainer.clean_up()
    assert (orphan.status, orphan.job_id, orphan.place) == ("QUEUE", job.name, ZONE)
    cloud.clock.advance(60)
    assert things(cloud) == []


@pytest.mark.parametrize("act", ["cancel", "clean up"])
def test_a_gang_that_waits_and_whose_record_is_damaged_can_be_withdrawn(cloud, make, spec, act):
    full(cloud)
    backend, beside = make(), Steps(make()).submit(spec(), job_id="gpt-1")
    job = Trainer(backend).submit(spec())
    cloud.clock.advance(60)
    Objects(backend._access, "my-bucket").write(f"records/{job.id}.json", b"[]", if_generation=None)
    if act == "cancel":
        with pytest.raises(RecordError):
            job.cancel()
    else:
        assert [one.job_id for one in Trainer(make()).clean_up()] == [job.id]
    cloud.clock.advance(60)
    assert len(things(cloud)) == 3
    assert not [name for name in things(cloud) if name.startswith(job.id)]
    assert make().observe(beside).state is State.QUEUED


def test_to_withdraw_one_whose_record_is_damaged_leaves_another_such_to_a_clean_up(cloud, make, spec):
    full(cloud)
    backend = make()
    jobs = [Trainer(backend).submit(spec(), idempotency_key=key) for key in "ab"]
    cloud.clock.advance(60)
    for job in jobs:
        Objects(backend._access, "my-bucket").write(f"records/{job.id}.json", b"[]", if_generation=None)
    with pytest.raises(RecordError):
        jobs[0].cancel()
    cloud.clock.advance(60)
    assert {name.startswith(jobs[1].id) for name in things(cloud)} == {True}
    assert [one.job_id for one in Trainer(make()).orphans()] == [jobs[1].id]


def test_orphans_of_another_home_are_left_alone(cloud, make, spec):
    full(cloud)
    Steps(make()).submit(spec(), job_id="bert-1")
    cloud.clock.advance(60)
    other = Trainer(make(bucket="gs://my-bucket/team"))
    assert other.orphans() == other.clean_up() == ()
    assert len(things(cloud)) == 3


def test_vms_that_come_and_go_are_no_half_gang(cloud, road, spec):
    cloud.compute.settings.flex_false_starts = True
    full(cloud, 1)
    ref = road.submit(spec(), job_id="bert-1")
    for _ in range(60):
        cloud.clock.advance(5)
        assert not road.supervise(ref)
        assert road.backend.observe(ref).state is State.QUEUED
    full(cloud, 2)
    cloud.clock.advance(600)
    assert sorted(vm.name for vm in cloud.compute.vms.values()) == NAMES


def test_the_last_word_of_a_vm_that_was_taken_back_is_not_that_of_the_next_of_its_name(cloud, make, spec):
    cloud.compute.settings.flex_false_starts = True
    full(cloud, 1)
    backend = make()
    job = Trainer(backend).submit(spec())
    cloud.clock.advance(25)
    (early,) = cloud.compute.vms.values()
    full(cloud, 9)
    word = {"schema": 2, "phase": "ended", "why": "halted", "attempt": 0, "node_rank": 0, "vm_id": early.id}
    board = Objects(backend._access, "my-bucket")
    board.write(f"jobs/{job.id}/attempt-0/status-0.json", json.dumps(word).encode(), if_generation=None)
    told = []
    for _ in range(30):
        cloud.clock.advance(5)
        told.append(job.refresh().detail)
        job.supervise()
    assert [vm.status for vm in cloud.compute.vms.values()] == ["RUNNING", "RUNNING"]
    assert (told[-1], [one for one in told if "gone" in one]) == ("VMs running", [])


@pytest.mark.parametrize("lags", [("instances",), ("instances", "zoneOperations")])
def test_lists_that_lag_when_it_is_served_end_no_gang(cloud, make, spec, lags):
    full(cloud)
    job = Trainer(make()).submit(spec(max_wait_duration="9h", max_restarts=2))
    cloud.clock.advance(7200)  # so the ask is old when its VMs are young
    for kind in lags:
        cloud.fail(f"compute.{kind}.list", faults.Stale(seconds=100), times=None)
    full(cloud, 9)
    for _ in range(40):
        cloud.clock.advance(5)
        assert job.refresh().state in (State.QUEUED, State.PROVISIONING)
        job.supervise()
    assert sorted(vm.name for vm in cloud.compute.vms.values()) == [f"{job.name}-0-0", f"{job.name}-0-1"]


def test_a_placement_policy_is_refused_with_what_to_do(make, spec):
    with pytest.raises(NoFitError, match="takes no placement policy"):
        Trainer(make(placement_policy="together")).submit(spec())


def test_a_gang_that_ended_leaves_no_group_behind_once_somebody_looks(cloud, road, spec):
    ref = road.submit(spec(), job_id="bert-1")
    cloud.clock.advance(120)
    for name in NAMES:
        cloud.compute.guest_terminated(cloud.compute.find_vm(name))
    cloud.clock.advance(60)
    for _ in range(3):
        road.supervise(ref)
        cloud.clock.advance(200)
    assert things(cloud) == []


def test_an_answer_that_never_comes_says_that_nobody_knows(cloud, road, spec):
    cloud.fail(f"{REQUEST}.insert", faults.DropAfterCommit(), times=None)
    with pytest.raises(TransientError):
        road.create(road.request(spec(), "bert-1"))
