import os
import signal
import threading

import pytest

from gputrain import JobTimeoutError, Local, RequestError, State, Trainer

WAITS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("ready", flush=True)
time.sleep(600)
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
    job.wait()


def test_a_wait_that_is_too_short_leaves_the_job_running(waiting):
    with pytest.raises(JobTimeoutError, match="it keeps running"):
        waiting.wait(timeout=0.2)
    assert waiting.state is State.RUNNING


def test_ctrl_c_stops_the_watching_and_says_how_to_attach(waiting):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt, match=r"gputrain\.attach") as caught:
        waiting.wait()
    assert waiting.uri in str(caught.value)
    assert waiting.refresh().state is State.RUNNING


def test_a_platform_without_machines_of_its_own_has_no_shell_to_them(waiting):
    with pytest.raises(RequestError, match="no shell"):
        waiting.ssh_command()


def test_a_job_shows_itself(waiting):
    assert waiting.uri in repr(waiting)
    assert "runs on" in waiting._repr_mimebundle_()["text/html"]
    assert "running for" in str(waiting.table)
