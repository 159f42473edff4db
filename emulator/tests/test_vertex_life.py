"""A custom job's states on a clock, without a server."""

from __future__ import annotations

from hypothesis import given, strategies as st

from emulator.tests.vertex_life import TWO, Machines, Processes, a_job
from gputrain_emulator.vertex.states import TERMINAL, Fate, State


def test_a_job_is_pending_then_running_then_succeeded() -> None:
    job = a_job()
    assert job.state is State.PENDING
    job.advance(94.9)
    assert job.state is State.PENDING
    job.advance(95)
    assert (job.state, job.started) == (State.RUNNING, 95)
    job.advance(1e6)
    assert (job.state, job.ended, job.error) == (State.SUCCEEDED, 395, None)


def test_real_replicas_decide_the_end_themselves() -> None:
    job = a_job(runner=Processes(real=True))
    job.advance(5000)
    assert job.state is State.RUNNING
    job.replica_exited("workerpool1-0", 0, 5001)
    assert job.state is State.RUNNING
    job.replica_exited("workerpool0-0", 0, 5002)
    assert (job.state, job.ended) == (State.SUCCEEDED, 5002)


def test_a_transient_exit_restarts_the_worker_five_times_and_then_fails_the_job() -> None:
    job = a_job(runner=Processes(real=True), replicas=TWO)
    now = 100.0
    job.advance(now)
    exits = 0
    while job.state not in TERMINAL:
        job.advance(now)
        if job.state is State.RUNNING:
            exits += 1
            job.replica_exited("workerpool1-0", 139, now)
        now += 100
    assert exits == 6
    assert job.error is not None
    assert "exited with a non-zero status of 139" in job.error.message


def test_a_worker_lost_more_than_five_times_costs_one_of_three_attempts() -> None:
    job = a_job(fate=Fate(run_s=float("inf")))
    now = losses = 0
    while job.state not in TERMINAL:
        now += 100
        job.advance(now)
        losses += 1
        job.worker_lost("workerpool1-0", now)
    assert losses == 3 * (5 + 1)
    assert job.error is not None
    assert job.error.message == "Internal error occurred for the current attempt"


def test_a_preempted_spot_job_comes_back_six_times_and_then_fails_as_a_stockout() -> None:
    job = a_job(spot=True, fate=Fate(run_s=float("inf")))
    now = 100.0
    for _ in range(6):
        job.advance(now)
        assert job.state is State.RUNNING
        job.preempt(now)
        assert job.state is State.PENDING
        now += 100
    job.advance(now)
    job.preempt(now)
    assert job.state is State.FAILED
    assert job.error is not None
    assert job.error.message.startswith("Resources are insufficient in region: us-central1.")


def test_no_machines_fail_a_standard_job_after_three_more_tries() -> None:
    machines = Machines()
    machines.stock = False
    job = a_job(machines)
    job.advance(179)
    assert job.state is State.PENDING
    job.advance(180)
    assert (job.state, job.ended) == (State.FAILED, 180)


def test_flex_start_waits_for_machines_until_its_max_wait() -> None:
    machines = Machines()
    machines.stock = False
    job = a_job(machines, flex_start=True, max_wait_s=3600)
    job.advance(3599)
    assert job.state is State.PENDING
    job.advance(3600)
    assert (job.state, job.ended) == (State.FAILED, 3600)


def test_a_job_without_quota_is_queued_until_some_is_free() -> None:
    machines = Machines()
    machines.quota = False
    job = a_job(machines)
    job.advance(1000)
    assert job.state is State.QUEUED
    machines.quota = True
    job.advance(1001)
    assert job.state is State.PENDING


def test_the_timeout_counts_from_the_first_start_and_ends_the_job() -> None:
    job = a_job(fate=Fate(run_s=float("inf")), timeout_s=3600)
    job.advance(200)
    job.preempt(200)
    job.advance(95 + 3600)
    assert (job.state, job.ended) == (State.CANCELLED, 95 + 3600)


_MOVES = st.lists(
    st.tuples(
        st.sampled_from(["advance", "preempt", "cancel", "internal", "lost", "exit0", "exit1", "exit139"]),
        st.floats(0, 400),
        st.booleans(),
    ),
    max_size=30,
)


@given(_MOVES, st.booleans(), st.booleans())
def test_whatever_happens_the_end_is_final_and_gives_everything_back(
    moves: list[tuple[str, float, bool]], spot: bool, real: bool
) -> None:
    machines = Machines()
    job = a_job(machines, Processes(real=real), spot=spot)
    now, final = 0.0, None
    for what, wait, machines.stock in moves:
        now += wait
        job.advance(now)
        if what == "preempt":
            job.preempt(now)
        elif what == "cancel":
            job.cancel(now)
        elif what == "internal":
            job.internal_error(now)
        elif what == "lost":
            job.worker_lost("workerpool1-0", now)
        elif what.startswith("exit"):
            job.replica_exited("workerpool0-0", int(what[4:]), now)
        assert final in (None, job.state)
        final = job.state if job.state in TERMINAL else None
        assert machines.held_quota == (0 if final else 1)
        assert machines.held_machines in ((0,) if final else (0, 1))
