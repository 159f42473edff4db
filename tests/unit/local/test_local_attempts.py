"""An attempt on this machine from its launch to its end, by the launcher and the reconciler."""

import concurrent.futures
import os
import signal

import attrs
import pytest

from gputrain.backends.local import backend, request as orders
from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.jobstore import Wanted
from gputrain.jobstore.record import draw_id
from gputrain.orchestration.launcher import act
from gputrain.orchestration.look import cancel, look
from tests.patience import until

SUPERVISOR, AGENT = "backends.local.supervisor", "gputrain.entrypoint"
TWICE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("attempt", os.environ["GPUTRAIN_ATTEMPT"], flush=True)
while os.environ["GPUTRAIN_ATTEMPT"] == "0":
    time.sleep(0.05)
"""


def test_a_supervisor_restarts_ranks_that_were_stopped_and_the_record_keeps_its_attempt(jobs, script):
    record = jobs.submit(script=script(TWICE), max_restarts=1)
    jobs.until_said(record, "attempt 0")
    os.kill(jobs.one_of(record, AGENT), signal.SIGTERM)
    ended = jobs.end(record)
    assert (ended.result, ended.restarts, ended.attempt.id) == ("succeeded", 1, record.attempt.id)
    assert jobs.status(ended).restarts == 1
    assert jobs.lines(ended) == ["attempt 0", "attempt 1"]


def test_to_launch_an_attempt_often_is_one_launch(jobs, waits):
    record, request = jobs.drawn(**waits[0])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(jobs.backend.launch, [request] * 8))
    assert set(handles) == {f"{backend._host()}:{jobs.folder(record)}"}
    jobs.until_said(record, "waiting")
    assert [one.attempt for one in jobs.backend.machines()] == [record.attempt.id]
    assert [one for one in os.listdir(jobs.root) if one.startswith(".new")] == []
    jobs.backend.terminate(record, 0)
    assert jobs.none_left(record, within_s=0)


@pytest.mark.parametrize("by", ["this process", "another host"])
def test_a_cancelled_job_saves_and_leaves(jobs, waits, by):
    spec, saved = waits
    record = jobs.submit(**spec, nproc_per_node=2)
    jobs.until_said(record, "waiting", times=2)
    if by == "this process":
        cancel(jobs.context, record.job_id, grace_s=10)
    else:  # it can write the record and nothing else
        jobs.change(record, wanted=Wanted.CANCEL)
    ended = jobs.end(record)
    assert (ended.result, ended.failure.kind, saved()) == ("cancelled", "cancelled", "saved saved ")
    assert jobs.none_left(record)


def test_an_attempt_that_is_superseded_is_killed_within_seconds_and_saves_nothing(jobs, waits):
    spec, saved = waits
    record = jobs.submit(**spec)
    jobs.until_said(record, "waiting")
    stored = jobs.context.jobs.read(record.job_id)
    other = attrs.evolve(record.attempt, id=draw_id())
    jobs.context.jobs.swap(attrs.evolve(record, attempt=other), stored.version)
    assert jobs.none_left(record)
    assert saved() == ""


@pytest.mark.parametrize("change", ["cancel", "another", "none", "deleted"])
def test_an_attempt_that_is_not_wanted_any_more_when_it_starts_starts_no_rank(
    jobs, script, change, monkeypatch
):
    record, request = jobs.drawn(script=script("print('it trains')"))
    begin, start = jobs.context.jobs.swap(record, 0), orders.start_supervisor

    def late(*words):
        if change == "deleted":
            (jobs.context.jobs.documents.root / "records" / f"{record.job_id}.json").unlink()
        else:
            other = attrs.evolve(record.attempt, id=draw_id())
            changes = {
                "cancel": record.cancel(),
                "another": attrs.evolve(record, attempt=other),
                "none": attrs.evolve(record, attempt=None),
            }
            jobs.context.jobs.swap(changes[change], begin.version)
        start(*words)

    monkeypatch.setattr(orders, "start_supervisor", late)
    jobs.backend.launch(request)
    seen = until(lambda: (found := jobs.status(record)).state.is_terminal and found)
    assert (seen.has_run, jobs.lines(record)) == (False, [])


def test_an_attempt_that_was_ended_before_its_launch_never_begins(jobs, script):
    record, request = jobs.drawn(script=script("print('it trains')"))
    jobs.backend.terminate(record, 0)
    jobs.backend.launch(request)
    assert (jobs.status(record).exists, jobs.backend.machines()) == (False, ())
    assert not jobs.processes(record)


def test_a_killed_supervisor_leaves_no_rank_and_the_job_is_lost(jobs, waits):
    record = jobs.submit(**waits[0], num_nodes=2, max_restarts=1)
    jobs.until_said(record, "waiting", times=2)
    os.kill(jobs.one_of(record, SUPERVISOR), signal.SIGKILL)
    ended = jobs.end(record)
    assert (ended.result, ended.failure.kind) == ("lost", "lost")
    assert 0 < ended.started_at <= ended.ended_at
    assert jobs.none_left(record)


def test_an_attempt_of_another_host_is_neither_judged_nor_ended(jobs, waits):
    record = jobs.submit(**waits[0])
    elsewhere = attrs.evolve(record, attempt=attrs.evolve(record.attempt, handle="far-away:/jobs/bert/a"))
    stored = jobs.context.jobs.read(record.job_id)
    jobs.context.jobs.swap(elsewhere, stored.version)
    found = act(jobs.context, look(jobs.context, record.job_id))
    assert (found.state, found.status.detail) == (None, "it runs on far-away")
    jobs.backend.terminate(elsewhere, 10)
    for asked in (
        lambda: jobs.backend.terminate(elsewhere, 0),
        lambda: jobs.backend.logs(elsewhere),
        lambda: jobs.backend.ask_for_stacks(elsewhere, "n"),
    ):
        with pytest.raises(RequestError, match="it runs on far-away"):
            asked()
    jobs.backend.terminate(record, 0)


def test_a_folder_that_others_may_write_is_not_believed(jobs, script):
    record = jobs.end(jobs.submit(script=script("pass")))
    jobs.folder(record).chmod(0o777)
    assert (jobs.status(record).state, jobs.backend.machines()) == (None, ())
    with pytest.raises(PermissionDeniedError):
        jobs.backend.terminate(record, 0)
