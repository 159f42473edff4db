"""Why a gang ended: every way an attempt can end is told as itself, whatever stands beside it."""

import ast
import inspect
import json

import pytest

from gputrain import causes
from gputrain.backends.compute import causes as judge_of
from gputrain.backends.compute.causes import BY_PEOPLE, OPERATIONS, VmReport, judge
from gputrain.backends.compute.moments import moments
from gputrain.entrypoint import contract
from gputrain.errors import TransientError
from gputrain.gcp import Objects
from gputrain.keeper.status import SCHEMA
from gputrain.lifecycle import State
from gputrain.records import Ask, Code, Record, Way
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator.failures import ROWS
from gputrain_emulator.faults import Reshape, Stale
from tests.unit.steps import Steps, supervised

BULK = "compute.instances.bulkInsert"
_ID = "11111111-1111-4111-8111-111111111111"
ACCOUNT = "gputrain@my-project.iam.gserviceaccount.com"


FAILED_AT, ENDED_AT = "2026-11-20T12:00:10.500000Z", "2026-11-20T12:00:11Z"


def result(state, code, *, cause=None, stop=None, at=FAILED_AT, node_rank=0):
    return {
        contract.R_STATE: state,
        contract.R_EXIT_CODE: code,
        contract.R_CAUSE: cause,
        contract.R_STOP: stop,
        contract.R_NODE_RANK: node_rank,
        contract.R_ENDED_AT: at,
    }


def ended(rank=0, why="", code=0, told=None, message=""):
    return {
        "schema": SCHEMA,
        "phase": "ended",
        "node_rank": rank,
        "why": why,
        "exit_code": code,
        "result": told,
        "ended_at": ENDED_AT,
        "message": message,
    }


def operation(kind, *, user="system@google.com", at="2026-11-20T04:00:10.000-08:00", codes=()):
    errors = {"errors": [{"code": code} for code in codes]} if codes else None
    return {"operationType": kind, "user": user, "insertTime": at, "error": errors}


def rank_failure(kind="exception"):
    return {"kind": kind, "rank": 1, "node_rank": 0, "exit_code": 1, "message": "ValueError: torn"}


DONE = ended(told=result("done", 0))
FAILED = ended(code=1, told=result("failed", 1, cause=rank_failure()))
LOST_PEER = ended(code=69, told=result("failed", 69, cause={"kind": "node_lost", "node_rank": 1}))
STOPPED = ended(code=75, told=result("stopped", 75, stop={"reason": "SIGTERM", "node_rank": 1}))


def told_of(reason, *, by, rank=1):
    """What a node wrote at its end of a notice that one of them had."""
    stop = {"reason": reason, "node_rank": by}
    return ended(code=75, rank=rank, told=result("stopped", 75, stop=stop, node_rank=rank))


NOTICED = told_of("preempted", by=1)
SELF_DELETE = operation("delete", user=ACCOUNT, at="2026-11-20T04:00:12.000-08:00")
NEVER_BOOTED = ended(why="absent", code=75, message="bert-1-0-1 never booted")

ENDS = {
    None: [
        ((DONE, [SELF_DELETE]), (DONE, [SELF_DELETE])),
        ((DONE, []), (None, [operation("compute.instances.hostError", at="2026-11-20T04:00:12.000-08:00")])),
    ],
    causes.EXCEPTION: [
        ((FAILED, [SELF_DELETE]), (FAILED, [SELF_DELETE])),
        (
            (FAILED, []),
            (FAILED, [operation("compute.instances.preempted", at="2026-11-20T04:00:12.000-08:00")]),
        ),
        ((FAILED, []), (None, [operation("compute.instances.preempted", at=FAILED_AT)])),
        ((FAILED, []), (None, [operation("compute.instances.preempted", at="2026-11-20T12:00:12Z")])),
    ],
    causes.PREEMPTED: [
        ((LOST_PEER, []), (None, [operation("compute.instances.preempted")])),
        ((STOPPED, []), (STOPPED, [operation("compute.instances.preempted")])),
        (
            (ended(why="peer", code=None), []),
            (ended(rank=1, why="halted", code=None), [operation("compute.instances.preempted")]),
        ),
        ((STOPPED, []), (NOTICED, [])),
        ((None, []), (None, [operation("compute.instances.baremetalCaretakerPreempted")])),
        ((FAILED, []), (None, [operation("compute.instances.preempted")])),
    ],
    causes.HOST_ERROR: [
        (
            (None, [operation("delete", user="me@example.com", at="2026-11-20T04:00:50.000-08:00")]),
            (None, [operation("compute.instances.hostError")]),
        ),
        ((LOST_PEER, []), (None, [operation("compute.instances.hostError")])),
        ((LOST_PEER, []), (None, [operation("compute.instances.localSsdRecoveryError")])),
        ((NEVER_BOOTED, [SELF_DELETE]), (None, [operation("compute.instances.hostError"), SELF_DELETE])),
    ],
    causes.MAINTENANCE: [
        ((STOPPED, []), (STOPPED, [operation("compute.instances.terminateOnHostMaintenance")])),
        ((STOPPED, []), (told_of("maintenance:TERMINATE_ON_HOST_MAINTENANCE", by=1), [])),
    ],
    causes.TIME_LIMIT: [
        ((STOPPED, [operation("compute.instances.deferredDelete")]), (STOPPED, [])),
        ((None, [operation("compute.instances.deferredStop")]), (None, [])),
        ((ended(why="max_run_duration", code=75, told=result("stopped", 75)), []), (STOPPED, [])),
    ],
    causes.STOPPED_BY_PERSON: [
        (
            (None, [operation("delete", user="alice@example.com")]),
            (None, [operation("stop", user="alice@example.com")]),
        ),
        ((LOST_PEER, []), (None, [operation("delete", user="alice@example.com")])),
        ((STOPPED, []), (STOPPED, [operation("stop", user="alice@example.com")])),
    ],
    causes.GUEST_SHUTDOWN: [((LOST_PEER, []), (None, [operation("compute.instances.guestTerminate")]))],
    causes.BOOT: [
        ((NEVER_BOOTED, [SELF_DELETE]), (None, [SELF_DELETE])),  # its peers delete it
        (
            (NEVER_BOOTED, [SELF_DELETE]),
            (None, [operation("delete", user="me@example.com", at="2026-11-20T04:05:00.000-08:00")]),
        ),
        ((ended(why="peer", code=69), []), (ended(rank=1, why="boot", code=64, message="no GPU"), [])),
    ],
    causes.REBOOTED: [((LOST_PEER, []), (ended(rank=1, why="restarted", code=64), []))],
    causes.PREEMPTED_IN_CREATION: [
        ((None, []), (None, [operation("insert", user="me", codes=["UNSUPPORTED_OPERATION"])])),
        ((None, []), (None, [operation("insert", user="me", codes=["RESOURCE_NOT_FOUND"])])),
    ],
    causes.WAIT_LIMIT: [
        ((None, [operation("insert", user="me", codes=["ZONE_RESOURCE_POOL_EXHAUSTED"])]), (None, [])),
    ],
    causes.QUOTA_REGION: [
        ((None, [operation("insert", user="me", codes=["QUOTA_EXCEEDED"])]), (None, [])),
    ],
    causes.UNKNOWN: [
        ((None, [operation("insert", user="me", codes=["PERMISSIONS_ERROR"])]), (None, [])),
        ((None, [{**operation("insert", user="me"), "httpErrorStatusCode": 403}]), (None, [])),
    ],
    causes.CANCELLED: [
        ((STOPPED, [operation("delete", user="me")]), (STOPPED, [operation("delete", user="me")]))
    ],
    causes.STOPPED: [
        ((STOPPED, [SELF_DELETE]), (STOPPED, [SELF_DELETE])),
        ((STOPPED, [operation("stop", user="alice@example.com", at=ENDED_AT)]), (STOPPED, [])),
        ((ended(why="peer", code=None), []), (ended(rank=1, why="halted", code=None), [SELF_DELETE])),
    ],
    causes.UNSAVED: [
        ((DONE, [SELF_DELETE]), ({**DONE, "unsaved": "gs://b/log.txt: HTTP 403"}, [SELF_DELETE])),
    ],
    causes.VANISHED: [
        ((None, [operation("delete", user="me@example.com")]), (None, [operation("insert", user="me")])),
        ((LOST_PEER, []), (None, [])),
        ((STOPPED, [SELF_DELETE]), (None, [])),
        (
            (None, [operation("insert", user="me")]),
            (None, [operation("compute.instances.migrateOnHostMaintenance")]),
        ),
    ],
}
ALL = [(cause, number) for cause, ways in ENDS.items() for number in range(len(ways))]


def judged(cause, number):
    nodes = [
        VmReport(rank=rank, status="", document=document, operations=tuple(operations))
        for rank, (document, operations) in enumerate(ENDS[cause][number])
    ]
    return judge(nodes, account=ACCOUNT, is_cancelled=cause is causes.CANCELLED)


@pytest.mark.parametrize(("cause", "number"), ALL)
def test_the_confusion_matrix_is_diagonal(cause, number):
    assert judged(cause, number).cause is cause


@pytest.mark.parametrize("cause", [cause for cause in ENDS if cause is not None])
def test_the_order_in_which_nodes_are_looked_at_makes_no_difference(cause):
    for number in range(len(ENDS[cause])):
        nodes = [
            VmReport(rank=rank, status="", document=document, operations=tuple(operations))
            for rank, (document, operations) in enumerate(ENDS[cause][number])
        ]
        assert judge(nodes[::-1], account=ACCOUNT, is_cancelled=cause is causes.CANCELLED).cause is cause


def test_every_cause_that_is_told_here_stands_in_the_matrix():
    tree = ast.parse(inspect.getsource(judge_of))
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.isupper()}
    named = {name for name in named if isinstance(getattr(causes, name, None), causes.Cause)}
    assert {getattr(causes, name) for name in named} == {*ENDS} - {None, causes.EXCEPTION}


def test_every_operation_that_google_is_known_to_write_has_a_row():
    known = {
        "preempted",
        "baremetalCaretakerPreempted",
        "hostError",
        "terminateOnHostMaintenance",
        "guestTerminate",
    }
    known |= {"deferredStop", "deferredDelete", "migrateOnHostMaintenance", "automaticRestart"}
    known |= {"upcomingMaintenance", "upcomingInfraMaintenance"}  # they announce, and end nothing
    assert {name.rpartition(".")[2] for name in OPERATIONS} == known
    assert {"stop", "delete"} <= BY_PEOPLE


def test_a_rank_that_failed_keeps_its_own_words():
    verdict = judged(causes.EXCEPTION, 0)
    assert (verdict.failure.kind, verdict.failure.rank, verdict.failure.exit_code) == ("exception", 1, 1)


def test_a_vm_that_could_not_write_to_the_bucket_is_told_from_one_that_google_took():
    nodes = [VmReport(rank=0, operations=(SELF_DELETE,))]
    verdict = judge(nodes, account=ACCOUNT, is_cancelled=False)
    assert (verdict.cause, verdict.failure.kind) == (causes.VANISHED, "vanished")
    assert "could not write to the bucket" in verdict.detail


@pytest.mark.parametrize(
    ("nodes", "rank"),
    [
        ((told_of("preempted", by=0, rank=0), told_of("preempted", by=0)), 0),
        ((told_of("preempted", by=1, rank=0), told_of("preempted", by=1)), 1),
        ((LOST_PEER, LOST_PEER), 0),
        ((LOST_PEER, None), 1),
    ],
)
def test_the_node_that_it_began_on_is_told_in_whatever_order_they_ended(nodes, rank):
    for first_s, second_s in ((0, 1), (1, 0)):
        found = judge(
            [
                VmReport(rank=number, document=one and {**one, "ended_at": f"2026-11-20T12:00:1{later_s}Z"})
                for number, (one, later_s) in enumerate(zip(nodes, (first_s, second_s)))
            ],
            account=ACCOUNT,
            is_cancelled=False,
        )
        assert found.node_rank == rank


def test_nobody_is_said_to_have_removed_itself_without_a_word_who_left_one():
    nodes = [VmReport(rank=rank, document=LOST_PEER, operations=(SELF_DELETE,)) for rank in range(2)]
    gone = [VmReport(rank=0), VmReport(rank=1)]
    for one in (nodes, gone):
        verdict = judge(one, account=ACCOUNT, is_cancelled=False)
        assert (verdict.cause, verdict.detail) == (causes.VANISHED, "")


def test_a_person_is_named():
    stopped = (operation("stop", user="alice@example.com"), operation("delete", user="bob@example.com"))
    for verdict in (
        judged(causes.STOPPED_BY_PERSON, 0),
        judge([VmReport(rank=0, operations=stopped)], account=ACCOUNT, is_cancelled=False),
    ):
        assert verdict.detail == "by alice@example.com"


@pytest.mark.parametrize(
    "user",
    [
        "123456789012@cloudservices.gserviceaccount.com",
        "service-123456789012@compute-system.iam.gserviceaccount.com",
    ],
)
def test_a_service_of_googles_is_not_named_as_if_it_were_a_person(user):
    deleted = {"operationType": "delete", "user": user, "insertTime": "2026-11-20T12:00:00Z"}
    verdict = judge([VmReport(rank=0, operations=(deleted,))], account=ACCOUNT, is_cancelled=False)
    assert verdict.detail.startswith(f"by {user}, Google's own")


# against the emulated cloud, whose operations are not of our making


def submitted(road, code, **fields):
    spec = TrainingSpec(**{"script": code, "gpu": "L4:1", "num_nodes": 2, "max_run_duration": "1h", **fields})
    return road.submit(spec, job_id="bert-1")


@pytest.mark.parametrize(
    ("happens", "state", "cause"),
    [
        ("preempt", State.FAILED, causes.PREEMPTED),
        ("host_error", State.FAILED, causes.HOST_ERROR),
        ("maintenance", State.FAILED, causes.MAINTENANCE),
        ("power_off", State.FAILED, causes.GUEST_SHUTDOWN),
    ],
)
def test_what_befalls_a_vm_is_told(cloud, road, code, happens, state, cause):
    model = "spot" if happens == "preempt" else "standard"
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    ref = submitted(road, code, num_nodes=1, provisioning_model=model)
    getattr(cloud, happens)("bert-1-0-0")
    cloud.clock.advance(300)
    seen = road.backend.observe(ref)
    assert (seen.state, seen.raw["cause"]) == (state, cause.kind)
    assert seen.failure.kind == cause.kind


def test_the_time_limit_is_googles_own_and_no_failure(cloud, road, code):
    ref = submitted(road, code, num_nodes=1)
    cloud.clock.advance(4000)
    seen = road.backend.observe(ref)
    assert seen.state is State.EXPIRED
    assert "max_run_duration" in seen.detail
    assert not cloud.compute.vms


def test_labels_edited_by_hand_do_not_lose_a_vm(cloud, road, code):
    ref = submitted(road, code)
    for vm in cloud.compute.vms.values():
        vm.resource["labels"] = {"team": "other"}
    assert road.backend.observe(ref).state is State.PROVISIONING


def test_a_vm_of_the_same_name_in_another_life_is_not_ours(cloud, road, code):
    ref = submitted(road, code, num_nodes=1)
    road.backend._gangs.delete("us-central1-a", "bert-1-0-0")
    cloud.clock.advance(300)
    body = json.loads(next(one for one in cloud.requests if one.method == BULK).body)
    body["instanceProperties"]["labels"]["gputrain-gang"] = "0123456789ab"
    operation = road.backend._calls.start("us-central1-a", "bulkInsert", body, _ID)
    road.backend._calls.end_of("us-central1-a", operation)
    assert [vm.name for vm in cloud.compute.vms.values()] == ["bert-1-0-0"]
    assert road.backend.observe(ref).state is State.CANCELLED


def test_a_list_that_is_incomplete_ends_no_job(cloud, road, code):
    ref = submitted(road, code)
    cloud.clock.advance(300)
    cloud.fail("compute.instances.list", "C37", times=None)
    seen = road.backend.observe(ref)
    assert seen.state is None


def test_a_preempted_job_with_restarts_left_is_interrupted_and_resumed_once(cloud, make, code):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    road = Steps(make())
    ref = submitted(road, code, provisioning_model="spot", max_restarts=1)
    cloud.preempt("bert-1-0-1")
    cloud.clock.advance(300)
    for vm in list(cloud.compute.vms.values()):
        road.backend._gangs.delete("us-central1-a", vm.name)
    cloud.clock.advance(300)
    assert road.backend.observe(ref).state is State.INTERRUPTED
    supervisors = [make() for _ in range(3)]
    assert [supervised(one, ref) for one in supervisors].count(True) == 1
    assert sorted(vm.name for vm in cloud.compute.vms.values()) == ["bert-1-1-0", "bert-1-1-1"]
    assert make().observe(ref).attempt == 1


def test_a_restart_goes_where_there_is_room(cloud, make, code):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    road = Steps(make())
    ref = submitted(
        road, code, num_nodes=1, machine_type="g2-standard-4", provisioning_model="spot", max_restarts=1
    )
    cloud.preempt("bert-1-0-0")
    cloud.stock("us-central1-a", "g2-standard-4", 0)
    cloud.clock.advance(300)
    assert supervised(road.backend, ref)
    assert {vm.zone for vm in cloud.compute.vms.values()} <= {"us-central1-b", "us-central1-c"}
    assert road.backend.observe(ref).state is State.PROVISIONING


def test_a_list_that_lags_behind_a_new_gang_ends_no_job(cloud, make, code):
    cloud.compute.settings.list_lag_s = 120.0
    ref = submitted(Steps(make()), code)
    seen = make().observe(ref)
    assert seen.state is State.PROVISIONING
    assert "gone" not in seen.detail


def test_lists_that_lack_vms_which_are_there_end_no_job_however_old(cloud, make, code):
    road = Steps(make())
    ref = submitted(road, code)
    names = [vm.name for vm in cloud.compute.vms.values()]
    cloud.clock.advance(1000)
    cloud.fail("compute.instances.list", Stale(seconds=1500), times=None)
    for _ in range(3):
        seen = make().observe(ref)
        assert (seen.state, "gone" in seen.detail) == (State.PROVISIONING, False)
        supervised(road.backend, ref)
        cloud.clock.advance(60)
    assert [vm.name for vm in cloud.compute.vms.values()] == names


@pytest.mark.parametrize("row", ["C37", "C37a", "C37b"])
def test_nothing_is_cleaned_after_half_a_list(cloud, road, row):
    cloud.fail("compute.instances.aggregatedList", row, times=None)
    with pytest.raises(TransientError) as caught:
        Trainer(road.backend).clean_up()
    assert caught.value.kind == "incomplete_list"
    assert ROWS[row].code in caught.value.why


def test_the_rest_of_a_half_dead_gang_goes_within_a_minute_and_the_whole_starts_again(cloud, make, code):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    ref = submitted(Steps(make()), code, provisioning_model="spot", max_restarts=1)
    cloud.preempt("bert-1-0-1", to_stock=True)
    cloud.clock.advance(250)
    assert [vm.name for vm in cloud.compute.vms.values()] == ["bert-1-0-0"]
    watcher = make()
    begun = cloud.clock.now()
    while any(vm.status == "RUNNING" for vm in cloud.compute.vms.values()):
        seen = watcher.observe(ref)
        assert "bert-1-0-1 is gone" in seen.detail
        watcher.tidy(ref, seen)
        cloud.clock.advance(watcher.poll_s)
    assert cloud.clock.now() - begun <= 60
    watcher.tidy(ref, watcher.observe(ref))
    deletes = [one for one in cloud.requests if one.method == "compute.instances.delete"]
    assert len(deletes) == 1, "what is on its way out is let go"
    cloud.clock.advance(60)
    assert watcher.observe(ref).raw["cause"] == "preempted"
    assert supervised(watcher, ref)
    assert sorted(vm.name for vm in cloud.compute.vms.values()) == ["bert-1-1-0", "bert-1-1-1"]


def trains(cloud, road, code):
    """A gang of two whose guests say that their ranks run."""
    ref = submitted(road, code)
    cloud.clock.advance(300)
    word = json.dumps({"schema": SCHEMA, "phase": "running"}).encode()
    for rank in range(2):
        name = f"jobs/bert-1/attempt-0/status-{rank}.json"
        Objects(road.backend._access, "my-bucket").write(name, word, if_generation=None)
    assert road.backend.observe(ref).state is State.RUNNING
    return ref


def test_the_rest_of_a_gang_whose_ranks_ran_goes_once_they_had_their_time_to_save(cloud, make, code):
    """Its agents end by themselves when a peer is lost, but for a guest that hangs."""
    road = Steps(make())
    ref = trains(cloud, road, code)
    cloud.host_error("bert-1-0-1")
    cloud.clock.advance(60)
    watcher = Steps(make())
    for wait_s, status in ((0, "RUNNING"), (170, "RUNNING"), (20, "STOPPING")):
        cloud.clock.advance(wait_s)
        watcher.supervise(ref)
        assert cloud.compute.find_vm("bert-1-0-0").status == status


def hide(cloud, name):
    """Have lists show all but this VM."""

    def without(body):
        return {**body, "items": [one for one in body.get("items", ()) if one.get("name") != name]}

    return cloud.fail("compute.instances.list", Reshape(change=without), times=None)


def test_a_gang_that_trains_is_not_ended_as_lists_leave_a_vm_out(cloud, make, code):
    road = Steps(make())
    ref = trains(cloud, road, code)
    hide(cloud, "bert-1-0-1")
    for _ in range(10):
        cloud.clock.advance(60)
        road.supervise(ref)
    assert {vm.name: vm.status for vm in cloud.compute.vms.values()} == {
        "bert-1-0-0": "RUNNING", "bert-1-0-1": "RUNNING",
    }  # fmt: skip


def test_a_look_at_an_earlier_attempt_ends_nothing_of_the_next(cloud, make, code):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    slow, quick = Steps(make()), Steps(make())
    ref = submitted(quick, code, provisioning_model="spot", max_restarts=1)
    cloud.preempt("bert-1-0-1", to_stock=True)
    cloud.clock.advance(250)
    slow.supervise(ref)
    cloud.clock.advance(60)
    seen = slow.backend.observe(ref)  # and then its laptop sleeps
    for _ in range(12):
        quick.supervise(ref)
        cloud.clock.advance(20)
    assert quick.backend.observe(ref).attempt == 1
    slow.backend.tidy(ref, seen)
    assert {vm.name: vm.status for vm in cloud.compute.vms.values()} == {
        "bert-1-1-0": "RUNNING", "bert-1-1-1": "RUNNING",
    }  # fmt: skip


def test_one_who_may_only_look_ends_nothing_and_still_sees(cloud, make, code):
    ref = submitted(Steps(make()), code)
    cloud.host_error("bert-1-0-1")
    looks = {"compute.instances.list", "compute.instances.get", "compute.zoneOperations.list"}
    reader = cloud.caller("reader@example.com", looks | {"storage.objects.get", "storage.buckets.list"})
    watcher = make(credentials=cloud.credentials_of(reader))
    watcher.tidy(ref, watcher.observe(ref))
    cloud.clock.advance(300)
    seen = watcher.observe(ref)
    assert "bert-1-0-1 is gone" in seen.detail
    watcher.tidy(ref, seen)
    assert any(vm.status == "RUNNING" for vm in cloud.compute.vms.values())


def test_when_a_job_ended_is_told_alike_within_its_second_and_later():
    document = {
        "phase": "ended",
        "waiting_at": "1970-01-01T00:16:50.500Z",
        "ended_at": "1970-01-01T00:17:00.900Z",
    }
    node = VmReport(rank=0, document=document)
    way = Way(
        backend="compute", place="a", region="a", gpu="L4", gpu_count="1", machine_type="m", model="spot"
    )
    ask = Ask(way=way, attempt=0, names=("x-0-0",), nonce="0123456789ab", price_usd_h=2.0, at=1000.0)
    code = Code(location="gs://b/c", argv=("a.py",), sha256="a" * 64)
    looks = [
        moments(
            Record(job_id="x", home="gs://b/", spec={}, ways=(way,), asks=(ask,), code=code, written_at=at),
            (node,),
            "ended",
        )
        for at in (1020.0, 1021.0, 1100.0)
    ]
    assert looks[0] == looks[1] == looks[2]
