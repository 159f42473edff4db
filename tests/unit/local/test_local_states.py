"""From what lies in a job's folder to an observation."""

import os

import pytest

from gputrain.backends import status as status_of
from gputrain.backends.local import states
from gputrain.backends.results import asked_by, first_cause, read_result, silence
from gputrain.entrypoint import contract
from gputrain.keeper import folder, status
from gputrain.lifecycle import State


def cause(kind, **more):
    return {**dict.fromkeys(contract.CAUSE_FIELDS), "kind": kind, "message": kind, **more}


def document(node_rank, its_cause, state="failed"):
    return {"node_rank": node_rank, "state": state, "cause": its_cause}


@pytest.fixture
def job(tmp_path):
    """Writes a job's folder as a supervisor that is gone would have left it."""

    def write(told=None, *documents, created_at=0.0, max_wait_s=0.0):
        nodes = [{}] * max(1, len(documents))
        order = {"nodes": nodes, "created_at": created_at, "max_wait_s": max_wait_s}
        folder.write_json(str(tmp_path / folder.ORDER), order)
        if told is not None:
            folder.write_json(str(tmp_path / folder.STATE), {"schema": status.SCHEMA, **told})
        attempt = tmp_path / folder.ATTEMPT.format(attempt=(told or {}).get("attempt", 0))
        attempt.mkdir()
        for one in documents:
            name = contract.RESULT_FILE.format(node_rank=one["node_rank"])
            folder.write_json(str(attempt / name), one)
        return str(tmp_path)

    return write


ENDS = [("", 0, State.SUCCEEDED), ("", 1, State.FAILED)] + [
    (why, 75, status_of.CAUSES[why].state if why in status_of.CAUSES else State.FAILED) for why in status.WHYS
]
GOING = [phase for phase in status.PHASES if phase != status.ENDED]


@pytest.mark.parametrize(("why", "code", "state"), ENDS)
def test_an_end_is_what_was_told(job, why, code, state):
    assert states.observe(job({"phase": "ended", "why": why, "exit_code": code})).state is state


def test_a_job_that_ended_well_was_not_cancelled_in_its_last_moment(job):
    told = {"phase": "ended", "why": "cancelled", "exit_code": 0}
    assert states.observe(job(told)).state is State.SUCCEEDED


@pytest.mark.parametrize("phase", GOING)
def test_a_job_that_nobody_looks_after_has_failed(job, phase):
    seen = states.observe(job({"phase": phase}))
    assert (seen.state, seen.failure.kind) == (State.FAILED, "lost")


def test_a_job_that_somebody_looks_after_is_where_it_was_told_to_be(job, tmp_path):
    path = job({"phase": "waiting"})
    held, seen = folder.take(path), []
    try:
        for phase in GOING:
            told = {"schema": status.SCHEMA, "phase": phase}
            folder.write_json(str(tmp_path / folder.STATE), told)
            seen.append(states.observe(path).state)
    finally:
        os.close(held)
    going = [one for one in State if not one.is_terminal]
    assert set(seen) == set(going)


def test_a_job_whose_supervisor_died_after_the_verdict_has_succeeded(job):
    path = job({"phase": "running", "running_at": "2026-11-22T00:00:00Z"}, document(0, None, state="done"))
    assert states.observe(path).state is State.SUCCEEDED


def test_a_job_that_never_began_expires(job):
    assert states.observe(job(created_at=1.0, max_wait_s=5.0)).state is State.EXPIRED


def test_a_job_that_never_began_still_waits_for_its_creator(job):
    assert states.observe(job(created_at=folder.now(), max_wait_s=60.0)).state is State.QUEUED


def test_a_job_that_never_began_is_cancelled_by_a_word(job, tmp_path):
    path = job(created_at=folder.now(), max_wait_s=60.0)
    (tmp_path / folder.CANCEL).touch()
    assert states.observe(path).state is State.CANCELLED


def test_a_rank_is_blamed_before_the_loss_of_a_node():
    lost, raised = cause("node_lost", node_rank=1), cause("exception", rank=2, node_rank=1)
    failure = first_cause([document(0, lost), document(1, raised)])
    assert (failure.kind, failure.rank) == ("exception", 2)


def test_the_lower_node_speaks_first():
    one, two = cause("exception", rank=0, node_rank=0), cause("exception", rank=2, node_rank=1)
    assert first_cause([document(1, two), document(0, one)]).rank == 0


@pytest.mark.parametrize("kind", contract.CAUSE_KINDS)
def test_every_kind_of_cause_becomes_a_failure(kind):
    failure = first_cause([document(0, cause(kind, rank=1, node_rank=0, traceback="T", last_lines=["a"]))])
    assert failure.kind == ("out_of_memory" if kind == contract.OUT_OF_MEMORY else kind)
    assert (failure.rank, failure.traceback, failure.last_lines) == (1, "T", ("a",))


@pytest.mark.parametrize(
    ("ages", "told"),
    [([], ""), ([59.0], ""), ([60.0], "1m"), ([300, 90], "1m30s"), ([300, 10], ""), ([None, 120], "2m")],
)
def test_a_silence_is_that_of_whoever_spoke_last_and_told_from_a_minute_on(ages, told):
    documents = [read_result({contract.R_SILENT_S: age}) for age in ages]
    assert silence(documents) == (f"no rank had said anything for {told}" if told else "")


@pytest.mark.parametrize(
    ("documents", "who"),
    [
        ([], "from outside"),
        ([{}, {"stop": {"node_rank": 1}}], "from outside"),
        ([{"stop": {}}, {"stop": {"reason": "a cancel"}}, {"stop": {"reason": "SIGTERM"}}], "a cancel"),
    ],
)
def test_who_asked_ranks_to_stop_is_told_by_the_first_agent_that_knows(documents, who):
    assert asked_by(documents) == f"it was stopped: {who}"


def test_no_cause_is_no_failure():
    assert first_cause([]) is None
    assert first_cause([document(0, None)]) is None


def test_an_agent_that_could_not_start_shows_its_last_lines(job, tmp_path):
    path = job({"phase": "ended", "exit_code": 64})
    (tmp_path / "node-0.log").write_bytes(b"gputrain.entrypoint: nothing to run\n")
    failure = states.observe(path).failure
    assert failure.exit_code == 64
    assert failure.last_lines == ("gputrain.entrypoint: nothing to run",)
    assert "cannot start" in failure.message
