"""Without Linux's death signal: a child goes with its parent, and whoever sees to that harms nobody else."""

import contextlib
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.soak.portable import interpreter

ROOT = Path(__file__).parents[3]

BEGIN = """
import os, signal, subprocess, sys, time
from gputrain.entrypoint import portable, processes, ranks

mark, me, own_number = sys.argv[1], os.getpid(), os.getpid
sleeper = [sys.executable, "-c", "import time; time.sleep(30)", mark]

def rank(*words):
    one = ranks.Rank(0, 0, "")
    one.start(words, os.environ)
    return one

def late(act):
    def do(*words):
        time.sleep(0.2)
        return act(*words)
    return do

def end():
    os.kill(me, signal.SIGKILL)

def open_files():
    found = []
    for number in range(200):
        try:
            found.append((number, os.fstat(number).st_ino))
        except OSError:
            pass
    return found
"""

ENDS = {
    "with all of its group": "os.setsid = late(os.setsid); rank(*sleeper); os.killpg(0, signal.SIGKILL)",
    "without standard files": "os.close(0); os.close(1); rank(*sleeper); end()",
    "with thousands of files": """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (6000, 6000))
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(5000)]
rank(*sleeper)
end()
""",
    "once who would have ended it was killed": """
started = []
fork = os.fork
os.fork = lambda: started.append(fork()) or started[-1]
hold = portable._hold
there = os.pipe()
portable._hold = lambda reader: (os.write(there[1], b"%d" % own_number()), hold(reader))
first = rank("sleep", "0.2")
os.kill(int(os.read(there[0], 20)), signal.SIGKILL)
ended = {}
while not ended:
    time.sleep(0.01)
    ended = processes.reap()
assert [one.exit_code for one in ended.values()] == [0], ended
rank(*sleeper)
end()
""",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return interpreter.make(tmp_path_factory.mktemp("leash"))


@pytest.fixture
def act(python, tmp_path):
    """Runs a script to its end; how it ended, and what lives of what it marked."""

    def run(script):
        words = [python, "-c", BEGIN + script, str(tmp_path)]
        return subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, check=False, start_new_session=True, timeout=60
        )

    return run


def marked(tmp_path):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(tmp_path) in path.read_text(errors="replace"):
                found.append(int(path.parent.name))
    return found


def none_left(tmp_path):
    until = time.monotonic() + 30.0
    while left := marked(tmp_path):
        assert time.monotonic() < until, left
        time.sleep(0.02)


@pytest.mark.parametrize("how", ENDS)
def test_a_rank_goes_with_its_parent(act, tmp_path, how):
    told = act(ENDS[how])
    assert (told.returncode, told.stdout, told.stderr) == (-signal.SIGKILL, "", "")
    none_left(tmp_path)


def test_a_rank_from_before_who_would_have_ended_it_was_killed_goes_too(act, tmp_path):
    told = act(
        """
fork, hold, there = os.fork, portable._hold, os.pipe()
portable._hold = lambda reader: (os.write(there[1], b"%d" % own_number()), hold(reader))
rank(*sleeper)
os.kill(int(os.read(there[0], 20)), signal.SIGKILL)
while portable.LEASH._tell("\\n"):
    time.sleep(0.01)
rank(*sleeper)
end()
"""
    )
    assert (told.returncode, told.stdout, told.stderr) == (-signal.SIGKILL, "", "")
    none_left(tmp_path)


def test_the_number_of_a_rank_that_came_to_nothing_may_be_another_s(act, tmp_path):
    told = act(
        """
nowhere = subprocess.DEVNULL
stranger = subprocess.Popen(sleeper, start_new_session=True, stdout=nowhere, stderr=nowhere)
os.getpid = lambda: me if own_number() == me else stranger.pid
try:
    rank("/no/such/program")
except OSError:
    print("refused")
end()
"""
    )
    assert (told.returncode, told.stdout, told.stderr) == (-signal.SIGKILL, "refused\n", "")
    time.sleep(0.5)
    (stranger,) = marked(tmp_path)
    subprocess.run(["kill", "-9", str(stranger)], check=True)


def test_a_rank_that_nobody_would_end_with_its_parent_is_none(act):
    told = act(
        """
leash = portable.LEASH
hold = leash.hold
def held_by_nobody():
    hold()
    reader, writer = os.pipe()
    os.dup2(writer, leash._writer)
    os.close(reader)
    os.close(writer)
leash.hold = held_by_nobody
one = rank("echo", "ran")
print(os.waitpid(one.pid, 0)[1] != 0, os.read(one.stdout, 100))
"""
    )
    assert (told.stdout, told.stderr) == ("True b''\n", "")


def test_standard_files_that_were_closed_bear_nothing_of_ours(act):
    told = act(
        """
os.close(0)
os.close(1)
one = rank("true")
os.write(2, os.read(one.stdout, 100))
"""
    )
    assert (told.returncode, told.stderr) == (0, "")


def test_a_signal_to_the_group_is_heard_once(act):
    told = act(
        """
processes.hold_signals()
signal.signal(signal.SIGINT, lambda *_: print("heard", flush=True))
os.setsid = late(os.setsid)
if not os.fork():
    os.setpgid(0, 0)
    time.sleep(0.1)
    os.killpg(me, signal.SIGINT)
    os._exit(0)
rank("true")
bytes_heard = os.read(portable.ears._reader, 100)
print(bytes_heard.count(bytes([signal.SIGINT])))
"""
    )
    assert (told.stdout, told.stderr) == ("heard\n1\n", "")


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_where_no_file_can_be_opened_none_of_ours_is_left_open(act, room):
    told = act(
        f"""
import resource
highest = max(number for number, _ in open_files())
while (filled := os.open(os.devnull, os.O_RDONLY)) < highest:
    pass
os.close(filled)
before = open_files()
resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + {room}, 4096))
try:
    portable._pipe()
except OSError as error:
    print(error.errno)
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))
print(open_files() == before)
"""
    )
    assert (told.stdout, told.stderr) == ("24\nTrue\n", "")


@pytest.mark.parametrize("which", [1, 2])
def test_no_room_for_another_process_is_an_error_that_leaves_nothing_open(act, which):
    told = act(
        f"""
fork, forks = os.fork, []
def full():
    forks.append(1)
    if len(forks) == {which}:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()

before = open_files()
os.fork = full
try:
    rank("true")
except BlockingIOError as error:
    print("refused", open_files() == before)
os.fork = fork
one = rank("true")
print(os.waitpid(one.pid, 0)[1])
"""
    )
    assert (told.stdout, told.stderr) == ("refused True\n0\n", "")
