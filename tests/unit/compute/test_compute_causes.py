"""Why a gang ended: every way an attempt can end is told as itself, whatever stands beside it."""

import pytest

from gputrain import causes
from gputrain.backends.agent_reports import read
from gputrain.backends.compute.causes import VmReport, judge
from gputrain.lifecycle import State
from gputrain.runtime import contract
from gputrain.runtime.contract import SCHEMA

ACCOUNT = "gputrain@my-project.iam.gserviceaccount.com"


FAILED_AT, ENDED_AT = "2026-11-20T12:00:10.500000Z", "2026-11-20T12:00:11Z"
BEFORE, AFTER, MUCH_LATER = (f"2026-11-20T04:00:{second}.000-08:00" for second in (10, 12, 50))
"""Of the failure, as Compute Engine writes times."""


def result(state, code, *, cause=None, stop=None, at=FAILED_AT, node_rank=0):
    return {
        contract.R_STATE: state, contract.R_EXIT_CODE: code, contract.R_CAUSE: cause, contract.R_STOP: stop,
        contract.R_NODE_RANK: node_rank, contract.R_ENDED_AT: at,
    }  # fmt: skip


def ended(rank=0, why="", code=0, told=None, message=""):
    return {
        "schema": SCHEMA, "phase": "ended", "node_rank": rank, "why": why, "exit_code": code, "result": told,
        "ended_at": ENDED_AT, "message": message,
    }  # fmt: skip


def by(user, kind, at=BEFORE, codes=()):
    """An operation that somebody began."""
    errors = {"errors": [{"code": code} for code in codes]} if codes else None
    return {"operationType": kind, "user": user, "insertTime": at, "error": errors}


def google(event, at=BEFORE):
    """An operation of Google's own."""
    return by("system@google.com", f"compute.instances.{event}", at)


def refused(code):
    return by("me", "insert", codes=[code])


def stopped(reason, *, by, rank=1):
    """What a node wrote at its end of a notice that one of them had."""
    stop = {"reason": reason, "node_rank": by}
    return ended(code=75, rank=rank, told=result("stopped", 75, stop=stop, node_rank=rank))


TORN = {"kind": "exception", "rank": 1, "node_rank": 0, "exit_code": 1, "message": "ValueError: torn"}
DONE = ended(told=result("done", 0))
FAILED = ended(code=1, told=result("failed", 1, cause=TORN))
LOST_PEER = ended(code=69, told=result("failed", 69, cause={"kind": "node_lost", "node_rank": 1}))
STOPPED = ended(code=75, told=result("stopped", 75, stop={"reason": "SIGTERM", "node_rank": 1}))
NOTICED = stopped("preempted", by=1)
PEER_LEFT = ended(why="peer", code=None)
HALTED = ended(rank=1, why="halted", code=None)
SELF_DELETE = by(ACCOUNT, "delete", AFTER)
NEVER_BOOTED = ended(why="absent", code=75, message="bert-1-0-1 never booted")

ENDS = {
    None: [
        ((DONE, [SELF_DELETE]), (DONE, [SELF_DELETE])),
        ((DONE, []), (None, [google("hostError", AFTER)])),
    ],
    causes.EXCEPTION: [
        ((FAILED, [SELF_DELETE]), (FAILED, [SELF_DELETE])),
        ((FAILED, []), (FAILED, [google("preempted", AFTER)])),
        ((FAILED, []), (None, [google("preempted", FAILED_AT)])),
        ((FAILED, []), (None, [google("preempted", "2026-11-20T12:00:12Z")])),
    ],
    causes.PREEMPTED: [
        ((LOST_PEER, []), (None, [google("preempted")])),
        ((STOPPED, []), (STOPPED, [google("preempted")])),
        ((PEER_LEFT, []), (HALTED, [google("preempted")])),
        ((STOPPED, []), (NOTICED, [])),
        ((None, []), (None, [google("baremetalCaretakerPreempted")])),
        ((FAILED, []), (None, [google("preempted")])),
    ],
    causes.HOST_ERROR: [
        ((None, [by("me@example.com", "delete", MUCH_LATER)]), (None, [google("hostError")])),
        ((LOST_PEER, []), (None, [google("hostError")])),
        ((LOST_PEER, []), (None, [google("localSsdRecoveryError")])),
        ((NEVER_BOOTED, [SELF_DELETE]), (None, [google("hostError"), SELF_DELETE])),
    ],
    causes.MAINTENANCE: [
        ((STOPPED, []), (STOPPED, [google("terminateOnHostMaintenance")])),
        ((STOPPED, []), (stopped("maintenance:TERMINATE_ON_HOST_MAINTENANCE", by=1), [])),
    ],
    causes.TIME_LIMIT: [
        ((STOPPED, [google("deferredDelete")]), (STOPPED, [])),
        ((None, [google("deferredStop")]), (None, [])),
        ((ended(why="max_run_duration", code=75, told=result("stopped", 75)), []), (STOPPED, [])),
    ],
    causes.STOPPED_BY_PERSON: [
        ((None, [by("alice@example.com", "delete")]), (None, [by("alice@example.com", "stop")])),
        ((LOST_PEER, []), (None, [by("alice@example.com", "delete")])),
        ((STOPPED, []), (STOPPED, [by("alice@example.com", "stop")])),
    ],
    causes.GUEST_SHUTDOWN: [((LOST_PEER, []), (None, [google("guestTerminate")]))],
    causes.BOOT: [
        ((NEVER_BOOTED, [SELF_DELETE]), (None, [SELF_DELETE])),  # its peers delete it
        ((NEVER_BOOTED, [SELF_DELETE]), (None, [by("me@example.com", "delete", MUCH_LATER)])),
        ((ended(why="peer", code=69), []), (ended(rank=1, why="boot", code=64, message="no GPU"), [])),
    ],
    causes.REBOOTED: [((LOST_PEER, []), (ended(rank=1, why="restarted", code=64), []))],
    causes.PREEMPTED_IN_CREATION: [
        ((None, []), (None, [refused("UNSUPPORTED_OPERATION")])),
        ((None, []), (None, [refused("RESOURCE_NOT_FOUND")])),
    ],
    causes.WAIT_LIMIT: [((None, [refused("ZONE_RESOURCE_POOL_EXHAUSTED")]), (None, []))],
    causes.QUOTA_REGION: [((None, [refused("QUOTA_EXCEEDED")]), (None, []))],
    causes.JOB_PERMISSION: [((None, [refused("PERMISSIONS_ERROR")]), (None, []))],
    causes.UNKNOWN: [((None, [{**by("me", "insert"), "httpErrorStatusCode": 403}]), (None, []))],
    causes.CANCELLED: [((STOPPED, [by("me", "delete")]), (STOPPED, [by("me", "delete")]))],
    causes.STOPPED: [
        ((STOPPED, [SELF_DELETE]), (STOPPED, [SELF_DELETE])),
        ((STOPPED, [by("alice@example.com", "stop", ENDED_AT)]), (STOPPED, [])),
        ((PEER_LEFT, []), (HALTED, [SELF_DELETE])),
    ],
    causes.VANISHED: [
        ((None, [by("me@example.com", "delete")]), (None, [by("me", "insert")])),
        ((LOST_PEER, []), (None, [])),
        ((STOPPED, [SELF_DELETE]), (None, [])),
        ((None, [by("me", "insert")]), (None, [google("migrateOnHostMaintenance")])),
    ],
}
ALL = [(cause, number) for cause, ways in ENDS.items() for number in range(len(ways))]


def judged(cause, number):
    nodes = [
        VmReport(rank=rank, status="", agent=read(document or {}), operations=tuple(operations))
        for rank, (document, operations) in enumerate(ENDS[cause][number])
    ]
    return judge(nodes, account=ACCOUNT, is_cancelled=cause is causes.CANCELLED)


@pytest.mark.parametrize(("cause", "number"), ALL)
def test_the_confusion_matrix_is_diagonal(cause, number):
    assert judged(cause, number).cause is cause


# against the emulated cloud, whose operations are not of our making


@pytest.mark.parametrize(
    ("happens", "cause"),
    [
        ("preempt", causes.PREEMPTED),
        ("host_error", causes.HOST_ERROR),
        ("maintenance", causes.MAINTENANCE),
        ("power_off", causes.GUEST_SHUTDOWN),
    ],
)
def test_what_befalls_a_vm_is_told(cloud, jobs, happens, cause):
    model = "spot" if happens == "preempt" else "standard"
    (name,) = jobs.submit(num_nodes=1, provisioning_model=model).record.attempt.names
    getattr(cloud, happens)(name)
    cloud.clock.advance(300)
    found = jobs.reconcile()
    assert (found.state, found.status.cause, jobs.record().result) == (State.FAILED, cause, cause.kind)
    assert found.status.failure.kind == cause.kind


def test_the_time_limit_is_googles_own_and_no_failure(cloud, jobs):
    jobs.submit(num_nodes=1)
    cloud.clock.advance(4000)
    found = jobs.reconcile()
    assert found.state is State.EXPIRED
    assert "max_run_duration" in found.status.detail
    assert jobs.vms() == []


def test_a_restart_goes_where_there_is_room(cloud, jobs):
    (name,) = jobs.submit(num_nodes=1, provisioning_model="spot", max_restarts=1).record.attempt.names
    cloud.preempt(name)
    cloud.stock("us-central1-a", "g2-standard-4", 0)
    cloud.clock.advance(300)
    jobs.reconcile()
    assert jobs.look().state is State.PROVISIONING
    assert {vm.zone for vm in cloud.compute.vms.values()} <= {"us-central1-b", "us-central1-c"}
