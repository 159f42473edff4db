"""A rank that is asked where it stands answers whatever it has done, and goes on as if nobody had asked."""

import os
import signal

import pytest

from gputrain.entrypoint import stacks

STANDS = """
import os, sys, threading
def stands():
    threading.Event().wait()
{before}
print("up", flush=True)
stands()
"""
DESTROYS = """
import sys, threading, time
sys.setswitchinterval(1e-6)
main, elsewhere = threading.get_ident(), []
class Owned:
    def __del__(self):
        if threading.get_ident() != main:
            elsewhere.append(self)
def deeper(owned, levels):
    return deeper(Owned(), levels - 1) if levels else sum(range(30))
print("up", flush=True)
until = time.monotonic() + 3
while time.monotonic() < until:
    deeper(Owned(), 40)
print("destroyed elsewhere", len(elsewhere))
"""
APART = """
import os, sys
folder = os.path.dirname(os.environ["GPUTRAIN_ERROR_FILE"])
class Last:
    def __del__(self, names=os.listdir, write=os.write, folder=folder):
        write(1, f"apart {[name for name in names(folder) if name.endswith('.asked')]}\\n".encode())
sys.last = Last()
"""
REPLACES = """
import ctypes, os, time
time.sleep(1)  # by when the thread that answers waits to be asked, which keeps its end of the fifo open
os.closerange(3, 4096)
own = os.open("checkpoint", os.O_WRONLY | os.O_CREAT)
for number in range(own + 1, min(os.sysconf("SC_OPEN_MAX"), 1024)):
    os.dup2(own, number)
print("up", flush=True)
ctypes.PyDLL(None).sleep(8)  # and keeps the interpreter's lock
"""
HEEDS = """
import ctypes, os, signal
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, lambda *_: os._exit(3))
print("up", flush=True)
ctypes.PyDLL(None).sleep(3)
"""
HELD = """
import ctypes, os, signal, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
{held}
print("up", flush=True)
{native}
print("went on", flush=True)
"""


def started(cluster, until, script):
    """A node whose rank is up, and the folder by which it is asked."""
    node = cluster.start(cluster.script(script), nproc=1, env={"TMPDIR": str(cluster.folder)})
    until(lambda: node.said("up"), "the rank's start")
    (folder,) = [path for path in cluster.folder.glob("gputrain-*") if path.is_dir()]
    return node, folder


@pytest.mark.parametrize(
    "before",
    [
        "os.closerange(3, 4096)",
        "'AGAIN' in os.environ or os.execve(sys.executable, sys.orig_argv, {**os.environ, 'AGAIN': ''})",
        "[threading.Thread(target=stands, daemon=True).start() for _ in range(120)]",
    ],
    ids=["closes", "begins-anew", "many-threads"],
)
def test_whatever_a_rank_has_done_it_answers_each_time(cluster, until, before):
    node, folder = started(cluster, until, STANDS.replace("{before}", before))
    for _ in range(3):
        (found,) = stacks.take(str(folder))
        assert (stacks.standing(found)["place"], found["absent"]) == ("stands at train.py:4", ""), node.out


def test_an_answer_that_found_no_room_is_not_the_last(cluster, until):
    """As on a full disk: the file for it cannot be opened, where there was one."""
    _, folder = started(cluster, until, STANDS.replace("{before}", ""))
    (told,) = folder.glob("stacks-*.told")
    told.unlink()
    told.mkdir()
    assert stacks.take(str(folder))[0]["absent"] == stacks.UNANSWERED
    told.rmdir()
    assert stacks.take(str(folder))[0]["absent"] == ""


def test_a_rank_finds_the_lowest_numbers_free(cluster):
    script = "import os, time; time.sleep(0.5); [os.dup2(1, number) for number in range(3, 10)]"
    node = cluster.run(cluster.script(script), nproc=1)
    assert node.code == 0, node.out


def test_whoever_asks_runs_no_destructors_of_the_rank(cluster, until):
    node, folder = started(cluster, until, DESTROYS)
    while node.process.poll() is None and not node.said("destroyed"):
        stacks.take(str(folder))
    assert node.said("destroyed elsewhere 0"), node.out


def test_a_rank_is_asked_no_more_once_it_is_taken_apart(cluster):
    node = cluster.run(cluster.script(APART), nproc=1)
    assert node.said("apart []"), node.out


def test_a_child_that_ends_leaves_its_rank_answering(cluster, until):
    fork = "if os.fork() == 0:\n    sys.exit()\nos.wait()"
    _, folder = started(cluster, until, STANDS.replace("{before}", fork))
    assert stacks.take(str(folder))[0]["absent"] == ""


@pytest.mark.parametrize("is_ending", [False, True])
def test_a_file_that_the_script_put_in_our_place_is_left_alone(cluster, until, is_ending):
    node, folder = started(cluster, until, REPLACES)
    (found,) = stacks.take(str(folder), is_ending=is_ending)
    assert found["absent"] == stacks.UNANSWERED, node.out
    assert (cluster.folder / "checkpoint").read_bytes() == b""


def test_a_script_that_heeds_every_signal_gets_none_for_being_asked(cluster, until):
    node, folder = started(cluster, until, HEEDS)
    (found,) = stacks.take(str(folder))
    assert found["absent"] == stacks.UNANSWERED
    assert node.wait().code == 0, node.out


@pytest.mark.parametrize("is_ending", [False, True])
def test_native_code_is_signalled_only_where_the_job_ends(cluster, until, is_ending):
    _, folder = started(cluster, until, HELD.format(held="", native="sum(range(10**12))"))
    (found,) = stacks.take(str(folder), is_ending=is_ending)
    assert (stacks.standing(found)["place"] == "<module> at train.py:6") == is_ending
    assert found["absent"] == ("" if is_ending else stacks.UNANSWERED)


def test_a_main_thread_that_blocks_signals_is_not_mistaken_for_another(cluster, until):
    blocks = "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    _, folder = started(cluster, until, HELD.format(held=blocks, native="ctypes.PyDLL(None).sleep(8)"))
    (found,) = stacks.take(str(folder), is_ending=True)
    assert (found["text"], found["absent"]) == ("", stacks.UNANSWERED)


def test_a_stopped_rank_has_no_signal_before_it_when_it_goes_on(cluster, until):
    stops = "print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    node, folder = started(cluster, until, HELD.format(held=stops, native=""))
    (found,) = stacks.take(str(folder), is_ending=True)
    assert "stopped by a signal" in found["absent"]
    (told,) = [path for path in folder.glob("stacks-*") if not path.suffix]
    before = told.read_bytes()
    os.kill(found["pid"], signal.SIGCONT)
    until(lambda: node.said("went on"), "its going on")
    assert not told.exists() or told.read_bytes() == before
