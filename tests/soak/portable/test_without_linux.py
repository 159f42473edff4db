"""The laptop is often a Mac: client and `Local` where nothing is there that only Linux has.

The tests are those of Linux. What only a real Mac can show stands in `docs/live-checklist.md`.
"""

import contextlib
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.soak.portable import interpreter

ROOT = Path(__file__).parents[3]

DETACHED = (
    "tests/unit/local/check/test_local_faults.py::test_nothing_is_left_when_a_job_has_ended",
    "tests/unit/local/check/test_local_faults.py::test_ranks_that_do_not_listen_are_killed_with_all_they_started",
)
"""What a rank has detached from its session comes home to its agent on Linux alone, and docs say so."""

SUITES = {
    "client": ("tests/unit/test_trainer.py", "tests/unit/test_job.py", "tests/unit/records"),
    "contract": ("tests/contract", "-k", "local"),
    "local": ("tests/unit/local", *(word for test in DETACHED for word in ("--deselect", test))),
}


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    return interpreter.make(tmp_path_factory.mktemp("portable"))


def test_the_interpreter_has_nothing_of_linux(python):
    look = (
        "import ctypes, fcntl, os, signal, socket\n"
        "for module, name in ((fcntl, 'F_OFD_SETLK'), (os, 'sched_getaffinity'), (signal, 'sigtimedwait'),\n"
        "                     (ctypes.CDLL(None), 'prctl'), (socket, 'TCP_KEEPIDLE')):\n"
        "    assert not hasattr(module, name), name\n"
        "assert not os.path.exists('/proc/self')\n"
        "try:\n"
        "    socket.socket().bind(('127.94.0.1', 0))\n"
        "except OSError:\n"
        "    print('gone')\n"
    )
    told = subprocess.run([python, "-I", "-S", "-c", look], capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("gone\n", "")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", SUITES)
def test_the_suites_hold_without_what_only_linux_has(python, suite):
    words = [python, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *SUITES[suite]]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-2000:]
    assert " passed" in told.stdout


KILLED_AT_A_START = """
import os, signal, subprocess, sys, time
from gputrain.entrypoint import processes, ranks

def start(how, *words):
    if how == "rank":
        ranks.Rank(0, 0, "").start(words, os.environ)
    else:
        processes.start(words, os.environ, "/", 1)

def killed(do, after_s):
    def strike(*words, **how):
        done = do(*words, **how)
        if done:
            time.sleep(after_s)
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return strike

how, mark, after_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
start(how, "sleep", "30")
if how == "rank":
    subprocess.Popen = killed(subprocess.Popen, after_s)
else:
    os.fork = killed(os.fork, after_s)
start(how, sys.executable, "-c", "import time; time.sleep(30)", mark)
"""


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.01, 0.1])
@pytest.mark.parametrize("how", ["rank", "agent"])
def test_a_child_goes_with_a_parent_that_is_killed_as_it_starts_it(python, tmp_path, how, after_s):
    mark = f"child-of-{tmp_path}"
    words = [python, "-c", KILLED_AT_A_START, how, mark, str(after_s)]
    told = subprocess.run(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert (told.returncode, told.stderr) == (-signal.SIGKILL, "")
    until = time.monotonic() + 5.0
    while left := [one for one in _command_lines() if mark in one]:
        assert time.monotonic() < until, left
        time.sleep(0.02)


def _command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_text(errors="replace")
