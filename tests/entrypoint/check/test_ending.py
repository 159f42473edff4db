"""What a script left open is whole at its end, whichever end that is, as it is under plain Python."""

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.each import each
from tests.entrypoint.nodes import Cluster

HERE = Path(__file__).parents[1]
ROWS = 2000


def rows_of(path):
    return [line.split(",") for line in path.read_text().splitlines()]


def h5(path):
    import h5py

    with h5py.File(path) as file:
        return list(file["losses"])


def events(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(path))
    found.Reload()
    return len(found.Scalars("loss"))


PLAIN = {
    "small.csv": lambda path: rows_of(path) == [[str(n), str(1.5 * n)] for n in range(3)],
    "big.csv": lambda path: rows_of(path) == [[str(n), str(1.5 * n)] for n in range(ROWS)],
    "text.gz": lambda path: gzip.decompress(path.read_bytes()) == b"packed\n" * ROWS,
    "files.zip": lambda path: zipfile.ZipFile(path).read("inside.txt") == b"inside",
    "files.tar": lambda path: tarfile.TarFile(path).getnames() == ["held.py"],
    "looped.txt": lambda path: path.read_text() == "looped\n" * ROWS,
    "native.txt": lambda path: path.read_text() == "native",
    "tee.txt": lambda path: path.read_text() == "told\n",
    "deleted.txt": lambda path: path.read_text() == "deleted",
    "elsewhere.txt": lambda path: path.read_text() == "elsewhere",
    "thread.txt": lambda path: path.read_text() == "thread",
    "child.txt": lambda path: path.read_text() == "child",
    "atexit.txt": lambda path: path.read_text() == "atexit",
    "history.txt": lambda path: path.read_text() == "nan at step 7",
}
LIBRARIES = {
    "numbers.h5": lambda path: h5(path) == list(range(ROWS)),
    "events": lambda path: events(path) == 50,
}
CODES = {"succeeds": 0, "destroys": 0, "fails": 1, "exits": 1}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Runs the script once for each way it may be run and end; the answer is where its files are."""
    done = {}

    def run(by, how, ending):
        if (by, how, ending) not in done:
            done[by, how, ending] = folder = tmp_path_factory.mktemp(f"{by}-{how}-{ending}")
            for name in ("left_open.py", "held_elsewhere.py"):
                shutil.copy(HERE / name, folder)
            words = ["left_open.py", "out", how, ending]
            if by == "python":
                env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "HOME": str(folder)}
                ended = subprocess.run([sys.executable, *words], cwd=folder, env=env, check=False)
                assert ended.returncode == CODES[ending]
                return folder / "out"
            cluster = Cluster(folder)
            try:
                node = cluster.run(*words, nproc=2 if how == "gloo" else 1)
            finally:
                cluster.close()
            assert node.code == CODES[ending], node.out
        return done[by, how, ending] / "out"

    return run


@pytest.mark.parametrize("ending", ["succeeds", "fails", "exits"])
@each("name", PLAIN)
def test_a_file_that_python_closes_at_its_end_is_whole_under_the_agent(ended, name, ending):
    for by in ("python", "agent"):
        assert PLAIN[name](ended(by, "alone", ending) / "0" / name), by


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("raise ValueError('nan')", 1), ("sys.exit(3)", 3)])
def test_files_are_whole_beside_daemon_threads_too(cluster, ending, code):
    script = cluster.script(f"""
        import atexit, gzip, sys, threading, time
        def watch():
            while True:
                time.sleep(0.01)
        threading.Thread(target=watch, daemon=True).start()
        text, packed = open("text.txt", "w"), gzip.open("text.gz", "wt")
        text.write("text"), packed.write("packed" * 100)
        atexit.register(text.write, " at exit")
        {ending}
    """)
    node = cluster.run(script, nproc=1)
    assert node.code == code, node.out
    assert (cluster.folder / "text.txt").read_text() == "text at exit"
    assert gzip.decompress((cluster.folder / "text.gz").read_bytes()) == b"packed" * 100


def test_a_rank_that_fails_where_no_thread_can_start_tells_of_its_failure_alone(cluster):
    script = """
        import atexit, threading
        def start_none(*_, **__):
            raise RuntimeError("can't start new thread")
        threading._start_new_thread = threading._start_joinable_thread = start_none
        atexit.register(print, "ended in order")
        raise ValueError("nan")
    """
    node = cluster.run(cluster.script(script), nproc=1)
    assert (node.code, node.cause["exception"]) == (1, "ValueError")
    assert node.said("ended in order"), node.out
    assert not node.said("RuntimeError: "), node.out


@pytest.mark.parametrize("ending", ["succeeds", "destroys", "fails"])
@each("name", {**PLAIN, **LIBRARIES})
def test_every_file_of_every_rank_is_whole_when_the_ranks_had_process_groups(ended, name, ending):
    for rank in ("0", "1"):
        assert {**PLAIN, **LIBRARIES}[name](ended("agent", "gloo", ending) / rank / name), rank


ENDLESS = """
import atexit, sys, threading
from gputrain.entrypoint import ending
def works():
    while True:
        exec("def short(): return [str(n) for n in range(20)]\\nshort()")
ending.FAILED_EXIT_S = 1.0
for n in range(3):
    threading.Thread(target=works, daemon=True).start()
atexit.register(works)
ending.leave(7, "/nowhere", failed=True)
"""


def test_an_end_that_never_comes_is_cut_short_with_the_ranks_own_code(tmp_path):
    """By the interpreter's own word: to read the frames of threads that run from outside may crash."""
    for _ in range(3):
        words = [sys.executable, "-c", ENDLESS]
        done = subprocess.run(words, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
        assert done.returncode == 7, done.stderr
        assert "in works" in done.stderr
