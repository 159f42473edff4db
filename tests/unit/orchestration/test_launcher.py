"""Submit, restart and cancel over a real store and real processes: one key is one job, whoever is killed."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time

import attrs
import pytest

from gputrain.jobstore import RecordError, Stored
from gputrain.lifecycle import State
from gputrain.orchestration.launcher import act, submit
from gputrain.orchestration.look import cancel, look, look_many
from tests.patience import until
from tests.unit.orchestration.processes import candidate, context, first_record, kill


def submitted(around, places, **spec):
    num_nodes = spec.get("num_nodes", 1)
    return submit(around, first_record(places, **spec), [candidate(one, num_nodes) for one in places], None)


def state_when_over(around, job_id="bert"):
    """The state of a job that is reconciled until it has ended."""
    return until(lambda: (found := act(around, look(around, job_id))).stored.record.has_ended and found.state)


def trained(root, job_id="bert"):
    """(attempt, starts, ends) of each node that trained, in order; an end may be missing."""
    spans, log = {}, root / job_id / "log"
    for line in log.read_text().splitlines() if log.exists() else ():
        at, what, attempt, rank = line.split()
        spans.setdefault((attempt, rank), [attempt, None, None])[1 if what == "starts" else 2] = float(at)
    return list(spans.values())


def test_a_job_whose_spec_cannot_be_read_hides_no_other(tmp_path):
    around = context(tmp_path, ["a"])
    submitted(around, ["a"])
    around.jobs.swap(attrs.evolve(first_record(["a"], job_id="newer"), spec={"of": "another release"}), 0)
    found = look_many(around, ["bert", "newer"])
    assert found["bert"].state is not None
    assert isinstance(found["newer"], RecordError)


def test_a_submit_is_two_writes(tmp_path, monkeypatch):
    around, writes = context(tmp_path, ["a"]), []
    swap = type(around.jobs.documents).swap
    monkeypatch.setattr(
        type(around.jobs.documents), "swap", lambda *args: writes.append(args[1]) or swap(*args)
    )
    submitted(around, ["a"])
    assert writes == ["records/bert.json"] * 2


def test_no_place_is_asked_for_what_the_record_does_not_name(tmp_path, monkeypatch):
    around, named = context(tmp_path, ["a"]), []
    backend = next(iter(around.backends.values()))
    launch = type(backend).launch

    def seen(self, request):
        named.append(around.jobs.read("bert"))
        return launch(self, request)

    monkeypatch.setattr(type(backend), "launch", seen)
    attempt = submitted(around, ["a"]).record.attempt
    assert [one and one.record.attempt.id for one in named] == [attempt.id]


def test_a_cancelled_job_saves_and_leaves_by_itself(tmp_path):
    around = context(tmp_path, ["a"], seconds=30, num_nodes=2)
    attempt = submitted(around, ["a"], num_nodes=2).record.attempt
    until(lambda: len(trained(tmp_path)) == 2)
    cancel(around, "bert", grace_s=10)
    assert state_when_over(around) is State.CANCELLED
    whys = [one.read_text() for one in (tmp_path / "bert" / attempt.id).glob("ended-*")]
    assert whys == ["cancelled", "cancelled"] or sorted(whys) == ["cancelled", "peer"]
    assert cancel(around, "bert", grace_s=0).record.result == "cancelled"


def test_a_job_that_lost_a_node_starts_again_and_ends_when_its_restarts_are_used_up(tmp_path):
    around = context(tmp_path, ["a"], seconds=30, num_nodes=2)
    submitted(around, ["a"], num_nodes=2, max_restarts=1)
    for restarts in (1, None):
        attempt = around.jobs.read("bert").record.attempt
        pid = tmp_path / "bert" / attempt.id / "pid-0"
        until(lambda: sum(one == attempt.id for one, _, _ in trained(tmp_path)) == 2)  # noqa: B023
        kill(int(pid.read_text()))
        (tmp_path / "bert" / attempt.id / "ended-0").write_text("preempted")
        if restarts:
            until(lambda: act(around, look(around, "bert")).stored.record.restarts == 1)
    assert state_when_over(around) is State.FAILED
    record = around.jobs.read("bert").record
    assert (record.result, record.restarts, record.used_s) == ("preempted", 1, 2.0)


SUBMITTER = """
import sys
from tests.unit.orchestration.test_launcher import submitted
from tests.unit.orchestration.processes import context
submitted(context(sys.argv[1], ["a", "b"], seconds=0.3), sys.argv[2:])
"""


@pytest.mark.check
@pytest.mark.parametrize("seed", range(20))
def test_of_submitters_that_are_killed_at_any_moment_one_job_comes(seed, tmp_path):
    draw = random.Random(seed)
    for _ in range(6):
        places = draw.choice([["a"], ["full-1", "a"], ["lost"], ["silent", "a"]])
        process = subprocess.Popen(
            [sys.executable, "-c", SUBMITTER, str(tmp_path), *places], stderr=subprocess.DEVNULL
        )
        time.sleep(draw.uniform(0.3, 1.2))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    around = context(tmp_path, ["a"])
    assert isinstance(submitted(around, ["a"]), Stored)
    assert state_when_over(around) is State.SUCCEEDED
    spans = sorted((start, end or start, attempt) for attempt, start, end in trained(tmp_path))
    for (_, ended, one), (starts, _, other) in itertools.pairwise(spans):
        assert one == other or ended <= starts, f"{one} and {other} train at once"
    assert attrs.asdict(around.jobs.read("bert").record)["result"] == "succeeded"
