"""The laptop is often a Mac: client and `Local` where nothing is there that only Linux has.

The tests are those of Linux. What only a real Mac can show stands in `docs/live-checklist.md`.
"""

import subprocess
from pathlib import Path

import pytest

from tests.soak.portable import interpreter

ROOT = Path(__file__).parents[3]

LINUX = (
    "tests/unit/local/check/test_local_faults.py::test_a_lost_agent_fails_the_job_and_names_its_node",
    "tests/unit/local/test_local_attempts.py::test_a_killed_supervisor_leaves_no_rank_and_the_job_is_lost",
    "tests/unit/local/check/test_local_faults.py::test_nothing_is_left_when_a_job_has_ended",
    "tests/unit/local/check/test_local_faults.py::test_ranks_that_do_not_listen_are_killed_with_all_they_started",
)
"""On Linux alone ranks end with an agent that is killed, and what they detach comes home, as docs say."""

SUITES = {
    "client": ("tests/unit/test_trainer.py", "tests/unit/test_job.py", "tests/unit/jobstore"),
    "contract": ("tests/contract", "-k", "local"),
    "local": ("tests/unit/local", *(word for test in LINUX for word in ("--deselect", test))),
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
