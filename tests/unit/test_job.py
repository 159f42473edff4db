import os
import pickle
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import attrs
import pytest

from gputrain import JobError, JobTimeoutError, Local, RequestError, State, Trainer
from gputrain.backends.base import JobRef
from gputrain.job import Result
from gputrain.metrics import Metrics

WAITS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def waiting(tmp_path):
    """A job that runs until it is stopped."""
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    job = Trainer(Local(gpus=0)).submit(str(script), nproc_per_node=2)
    for line in job.logs(rank=1, follow=True):
        if line.message == "ready":
            break
    yield job
    job.cancel()
    job.wait(timeout=30)


def test_a_wait_that_is_too_short_leaves_the_job_running(waiting):
    with pytest.raises(JobTimeoutError, match="it goes on"):
        waiting.wait(timeout=0.2)
    assert waiting.state is State.RUNNING


class Behind(Local):
    """A platform that tells minutes late that ranks run, as Vertex AI does."""

    def observe(self, ref):
        seen = super().observe(ref)
        return seen if seen.state is not State.RUNNING else attrs.evolve(seen, state=State.PROVISIONING)


def test_ranks_are_asked_where_they_stand_before_the_platform_tells_that_they_run(waiting, caplog):
    late = Trainer(Behind(gpus=0)).attach(waiting.uri)
    assert [one.rank for one in late.stacks().ranks] == [0, 1]
    assert "is provisioning: its ranks may not run yet; asking for 60 s" in caplog.text
    caplog.clear()
    assert [one.rank for one in waiting.stacks().ranks] == [0, 1]
    assert caplog.text == ""
    assert late.state is State.PROVISIONING
    waiting.cancel()
    waiting.wait(timeout=30)
    with pytest.raises(RequestError, match="no ranks of it run"):
        late.stacks()


def test_cancelling_twice_is_cancelling_once(waiting):
    waiting.cancel()
    waiting.cancel()
    assert waiting.wait(timeout=30) is State.CANCELLED
    waiting.cancel()
    assert waiting.wait(timeout=30) is State.CANCELLED


def test_the_result_of_a_cancelled_job_is_an_error(waiting):
    waiting.cancel()
    with pytest.raises(JobError, match="cancelled"):
        waiting.result(timeout=30)


def test_ctrl_c_stops_the_watching_and_says_how_to_attach(waiting):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt, match=r"gputrain\.attach") as caught:
        waiting.wait(timeout=30)
    assert waiting.uri in str(caught.value)
    assert waiting.refresh().state is State.RUNNING


def test_a_platform_without_machines_of_its_own_has_no_shell_to_them(waiting):
    with pytest.raises(RequestError, match="no shell"):
        waiting.ssh_command()


def test_a_job_shows_itself(waiting):
    assert waiting.uri in repr(waiting)
    assert "runs on" in waiting._repr_mimebundle_()["text/html"]
    assert "running for" in str(waiting.table)


def test_a_job_that_has_ended_says_how_long_it_ran(waiting):
    waiting.cancel()
    waiting.wait(timeout=30)
    assert re.search(r"^ran for +0:0", str(waiting.table), re.MULTILINE)
    assert "running for" not in str(waiting.table)


class Again(Local):
    """A platform whose job had run for a minute before it was started again, at 6 dollars an hour."""

    def observe(self, ref):
        return attrs.evolve(super().observe(ref), ran_before_s=60.0, spent_before_usd=0.1, price_usd_h=6.0)


@pytest.mark.parametrize(("platform", "before_s", "usd"), [(Local, 0.0, None), (Again, 60.0, 0.1)])
def test_a_clock_behind_the_jobs_makes_no_duration_and_no_cost_negative(waiting, platform, before_s, usd):
    an_hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    job = Trainer(platform(gpus=0), now=lambda: an_hour_ago).attach(waiting.uri)
    told = job.to_dict()
    assert (job.duration, told["duration_s"]) == (timedelta(seconds=before_s), before_s)
    assert told["cost_usd"] in (usd, 0.0)
    assert f"running for  {timedelta(seconds=before_s)}" in str(job.table)


def test_log_lines_are_read_once_by_each_reader(waiting):
    once = [line.message for line in waiting.logs(rank=1)]
    assert once == [line.message for line in waiting.logs(rank=1)] == ["ready"]


@pytest.mark.parametrize("project", ["a/b", ""])
def test_a_name_survives_every_character(project):
    ref = JobRef(backend="local", project=project, place="/tmp/ü %2F", name="x-1")
    assert JobRef.parse(ref.uri) == ref
    assert pickle.loads(pickle.dumps(ref)) == ref


def test_results_of_many_jobs_are_read_side_by_side():
    both = threading.Barrier(2, timeout=30)

    def read():
        both.wait()  # comes back only when the other one is read, too
        return Metrics(), 0.5

    ends = [
        Result(
            uri=f"gputrain://local/{n}",
            state=State.SUCCEEDED,
            duration=None,
            cost_usd=None,
            attempt=0,
            read=read,
        )
        for n in range(2)
    ]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda one: one.gpu_busy, ends)) == [0.5, 0.5]
    assert [one.gpu_busy for one in ends] == [0.5, 0.5]  # read once
