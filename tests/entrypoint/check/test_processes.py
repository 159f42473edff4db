"""What cannot be killed, as a process that is stuck in a driver, holds nobody up."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from gputrain.runtime import processes

LONG_S = 600


@pytest.fixture
def unkillable(monkeypatch):
    """No signal ends a process, until the end of the test; so it is with one in a driver's call."""
    kill, spared = os.kill, []
    monkeypatch.setattr(os, "kill", lambda pid, _: spared.append(pid))
    yield
    for pid in set(spared):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def test_a_program_that_cannot_be_killed_is_left_behind(unkillable):
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="has not ended within"):
        processes.output_of(["sleep", str(LONG_S)], 0.2)
    assert time.monotonic() - began < LONG_S / 2


ENDS = """
import os, subprocess
from gputrain.runtime import processes
child = subprocess.Popen(["sleep", "600"])
kill, os.kill = os.kill, lambda *_: None
processes.UNKILLABLE_S = 0.5
{how}
kill(child.pid, 9)
print("ended")
"""


KEEPS = """
from gputrain.runtime.supervisor import Rules, Site as Base, Supervisor
import time
class Site(Base):
    def waiting(self): return Rules(time.monotonic() + 600, "x", 0.0)
    def wait(self, supervisor): supervisor.call(["sleep", "601"], within_s=0.2)
    def deadline(self): return time.monotonic() + 0.2
    def start(self, supervisor, attempt):
        return {supervisor.start(["sleep", "602"], os.environ, "/", 2): 0}
class Board:
    def show(self, document): pass
    def wants(self): return ""
    def last(self, document): print(document["why"], document["exit_code"], document["lost"])
supervisor = Supervisor(Board(), Site({"GPUTRAIN_GRACE": "0"}, 0.0))
processes.hold_signals()
supervisor.run()
from gputrain.runtime import host
for pid in host.children_of(os.getpid()):
    kill(pid, 9)
"""


def test_a_keeper_whose_agents_cannot_be_killed_still_tells_the_end():
    words = [sys.executable, "-c", ENDS.format(how=KEEPS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG_S / 2, check=False)
    assert done.stdout == "max_run_duration 69 {0: 9}\nended\n", done.stderr


def test_a_file_that_cannot_be_read_ends_a_job_by_its_name():
    words = KEEPS.replace('supervisor.call(["sleep", "601"], within_s=0.2)', 'open("/no/such/file")')
    words = words.replace('document["why"], document["exit_code"], document["lost"]', 'document["message"]')
    words = [sys.executable, "-c", ENDS.format(how=words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG_S / 2, check=False)
    assert done.stdout == "[Errno 2] No such file or directory: '/no/such/file'\nended\n", done.stderr
