"""An attempt on this machine from its launch to its end, by the launcher and the reconciler."""

import concurrent.futures
import os
import signal
import sys

import attrs
import pytest

from gputrain.backends.local import backend, request as orders
from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.jobstore import FolderStore, JobStore, Wanted
from gputrain.jobstore.record import draw_id
from gputrain.lifecycle import State
from gputrain.orchestration.launcher import reconcile, submit
from gputrain.orchestration.reconciler import Adopt, Rules, decide
from gputrain.orchestration.steps import cancel
from tests.unit.local.jobs import until

SUPERVISOR, AGENT = "backends.local.supervisor", "gputrain.entrypoint.__main__"
TWICE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("attempt", os.environ["GPUTRAIN_ATTEMPT"], flush=True)
while os.environ["GPUTRAIN_ATTEMPT"] == "0":
    time.sleep(0.05)
"""


def test_a_job_runs_on_all_ranks_and_its_record_tells_how_it_ended(jobs, script):
    text = "import os\nfor n in range(50): print('line', os.environ['RANK'], n)\n"
    record = jobs.submit(script=script(text), num_nodes=2, nproc_per_node=2)
    assert record.attempt.handle.endswith(f":{jobs.folder(record)}")
    ended = jobs.end(record)
    assert (ended.result, ended.failure) == ("succeeded", None)
    assert 0 < ended.started_at <= ended.ended_at
    lines = jobs.lines(ended)
    assert sorted(lines) == sorted(f"line {rank} {n}" for rank in range(4) for n in range(50))
    assert jobs.backend.python(ended) == sys.executable
    near_end = jobs.backend.cursor_near_end(ended, 1)
    assert len(jobs.backend.logs(ended, near_end).lines) <= len(lines)
    assert submit(jobs.context, *jobs.first(ended.job_id, **_spec(ended)), None).record == ended


def _spec(record):
    return {name: record.spec[name] for name in ("script", "num_nodes", "nproc_per_node")}


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


def test_a_ctrl_c_in_a_launch_leaves_nothing_and_frees_the_key(jobs, waits, script, monkeypatch):
    start = orders.start_supervisor
    for number, is_up in enumerate((False, True)):

        def struck(*words, is_up=is_up):
            if is_up:
                start(*words)
            raise KeyboardInterrupt

        monkeypatch.setattr(orders, "start_supervisor", struck)
        first, plan = jobs.first(f"job-{os.getpid()}-{number}", **waits[0])
        with pytest.raises(KeyboardInterrupt):
            submit(jobs.context, first, plan, None)
        assert jobs.none_left(first, within_s=0)
        assert reconcile(jobs.context, first.job_id).state is State.CANCELLED
        monkeypatch.setattr(orders, "start_supervisor", start)
    assert jobs.context.jobs.read(first.job_id).record.result == "withdrawn"
    again, plan = jobs.first(first.job_id, script=script("pass"))
    assert jobs.end(submit(jobs.context, again, plan, None).record).result == "succeeded"


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
    assert jobs.none_left(record, within_s=8)
    assert saved() == ""
    assert jobs.status(record).raw["state"]["why"] == "superseded"


def test_a_record_that_is_gone_stops_no_training(jobs, waits):
    record = jobs.submit(**waits[0])
    jobs.until_said(record, "waiting")
    document = jobs.context.jobs.documents.read(f"records/{record.job_id}.json")
    jobs.context.jobs.documents.delete(document.name, document.version)
    with pytest.raises(AssertionError):
        jobs.none_left(record, within_s=4)
    jobs.backend.terminate(record, 0)


@pytest.mark.parametrize("change", ["cancel", "another", "none", "deleted"])
def test_an_attempt_that_is_not_wanted_any_more_when_it_starts_starts_no_rank(
    jobs, script, change, monkeypatch
):
    record, request = jobs.drawn(script=script("print('it trains')"))
    begin, start = jobs.context.jobs.swap(record, 0), orders.start_supervisor

    def late(*words):
        if change == "deleted":
            name = f"records/{record.job_id}.json"
            jobs.context.jobs.documents.delete(name, begin.version)
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
    assert seen.raw["state"]["why"] == ("cancelled" if change == "cancel" else "superseded")
    assert (seen.has_run, jobs.lines(record)) == (False, [])


def test_an_attempt_that_was_ended_before_its_launch_never_begins(jobs, script):
    record, request = jobs.drawn(script=script("print('it trains')"))
    jobs.backend.terminate(record, 0)
    jobs.backend.launch(request)
    assert (jobs.status(record).exists, jobs.backend.machines()) == (False, ())
    assert not jobs.processes(record)


def test_where_the_record_lies_elsewhere_the_folder_alone_decides(jobs, waits, tmp_path):
    jobs.context = attrs.evolve(jobs.context, jobs=JobStore(FolderStore(tmp_path / "bucket")))
    spec, saved = waits
    record = jobs.submit(**spec)
    jobs.until_said(record, "waiting")
    cancel(jobs.context, record.job_id, grace_s=10)
    assert (jobs.end(record).result, saved()) == ("cancelled", "saved ")


def test_a_killed_supervisor_leaves_no_rank_and_the_job_is_lost(jobs, waits):
    record = jobs.submit(**waits[0], num_nodes=2, max_restarts=1)
    jobs.until_said(record, "waiting", times=2)
    os.kill(jobs.one_of(record, SUPERVISOR), signal.SIGKILL)
    ended = jobs.end(record)
    assert (ended.result, ended.failure.kind) == ("lost", "lost")
    assert 0 < ended.started_at <= ended.ended_at
    assert jobs.none_left(record)


def test_a_supervisor_that_does_not_answer_is_killed(jobs, waits, monkeypatch):
    monkeypatch.setattr(backend, "ENDS_WITHIN_S", 0.3)
    record = jobs.submit(**waits[0])
    jobs.until_said(record, "waiting")
    os.kill(jobs.one_of(record, SUPERVISOR), signal.SIGSTOP)
    jobs.backend.terminate(record, 0)
    assert jobs.none_left(record, within_s=2)


def test_whoever_comes_next_adopts_what_a_killed_submitter_launched(jobs, waits):
    record, request = jobs.drawn(**waits[0])
    jobs.context.jobs.swap(record, 0)
    handle = jobs.backend.launch(request)
    status = until(lambda: (found := jobs.status(record)).is_whole and found)
    assert decide(record, status, 100, Rules()) == Adopt(handle=handle)
    first, plan = jobs.first(record.job_id, **waits[0])
    assert submit(jobs.context, first, plan, None).record.attempt.handle == handle
    jobs.backend.terminate(record, 0)


def test_what_a_killed_submitter_launched_is_the_job_of_the_key_also_once_it_is_over(jobs, script):
    record, request = jobs.drawn(script=script("pass"))
    jobs.context.jobs.swap(record, 0)
    jobs.backend.launch(request)
    until(lambda: jobs.status(record).state is State.SUCCEEDED)
    first, plan = jobs.first(record.job_id, script=script("pass"))
    found = submit(jobs.context, first, plan, None).record
    assert (found.result, found.attempt.id) == ("succeeded", record.attempt.id)


def test_a_launch_of_which_nothing_came_is_replaced(jobs, script):
    record, _request = jobs.drawn(script=script("pass"))
    jobs.context.jobs.swap(record, 0)
    first, plan = jobs.first(record.job_id, script=script("pass"))
    found = submit(jobs.context, first, plan, None).record
    assert found.attempt.id != record.attempt.id
    assert [one.outcome for one in found.history] == ["launch_lost"]
    assert jobs.end(found).result == "succeeded"


def test_an_attempt_of_another_host_is_neither_judged_nor_ended(jobs, waits):
    record = jobs.submit(**waits[0])
    elsewhere = attrs.evolve(record, attempt=attrs.evolve(record.attempt, handle="far-away:/jobs/bert/a"))
    stored = jobs.context.jobs.read(record.job_id)
    jobs.context.jobs.swap(elsewhere, stored.version)
    found = reconcile(jobs.context, record.job_id)
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


def test_a_folder_that_is_gone_is_a_lost_job(jobs, waits):
    record = jobs.submit(**waits[0])
    jobs.until_said(record, "waiting")
    jobs.folder(record).rename(jobs.root / "moved")
    assert jobs.none_left(record)
    assert jobs.end(record).result == "lost"


def test_a_folder_that_others_may_write_is_not_believed(jobs, script):
    record = jobs.end(jobs.submit(script=script("pass")))
    jobs.folder(record).chmod(0o777)
    assert (jobs.status(record).state, jobs.backend.machines()) == (None, ())
    with pytest.raises(PermissionDeniedError):
        jobs.backend.terminate(record, 0)


def test_what_runs_is_listed_with_its_job_and_attempt_and_can_be_removed(jobs, waits):
    records = [jobs.submit(**waits[0]) for _ in range(2)]
    for record in records:
        jobs.until_said(record, "waiting")
    machines = jobs.backend.machines()
    assert {(one.job_id, one.attempt) for one in machines} == {
        (one.job_id, one.attempt.id) for one in records
    }
    assert {(one.status, one.price) for one in machines} == {("running", None)}
    assert [one.job_id for one in jobs.backend.machines(records[0].job_id)] == [records[0].job_id]
    jobs.backend.remove(machines)
    assert jobs.backend.machines() == ()
    for record in records:
        assert jobs.none_left(record, within_s=0)


def test_the_agents_say_where_ranks_stand(jobs, waits):
    record = jobs.submit(**waits[0], num_nodes=2)
    jobs.until_said(record, "waiting", times=2)
    jobs.backend.ask_for_stacks(record, "0a1b2c3d")
    stacks = until(lambda: len(found := jobs.backend.stacks(record, "0a1b2c3d")) == 2 and found)
    assert {one["rank"] for ranks in stacks.values() for one in ranks} == {0, 1}
    jobs.backend.terminate(record, 0)
