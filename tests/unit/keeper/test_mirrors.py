"""The folders of a node, each filled and kept by a process of its own."""

import contextlib
import os
import signal
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import gputrain
from gputrain.keeper import keeper as keepers
from gputrain.keeper.journal import Journal
from gputrain.keeper.mirrors import Mirrors
from gputrain.keeper.rules import Rules
from gputrain.keeper.status import SHUTDOWN

from .folders import until


class Node:
    """A board that wants nothing, and a site that has no limits."""

    asked = ""

    def word(self):
        return ""

    def waiting(self):
        return Rules(float("inf"), "", 0.0)


class Kept:
    """A folder that a process of its own keeps like a place that holds what is given."""

    def __init__(self, store, tmp_path):
        self.journal = Journal(str(tmp_path), 0)
        job = {"storage": store._storage, "bucket": "my-bucket", "folder": "jobs/j/", "job_id": "j"}
        root = str(Path(gputrain.__file__).parents[1])
        self.mirrors = Mirrors(job, root, str(tmp_path / "data"), 0, self.journal)
        self.keeper = keepers.Keeper(Node(), Node())
        place, killed = "gs://my-bucket/ckpt", str(tmp_path / "killed")
        self.folder = Path(self.mirrors.fill(self.keeper, place, "checkpoints", killed, True))

    @property
    def log(self):
        return Path(self.journal._path).read_text()


def test_an_object_that_cannot_be_a_file_is_left_out_and_the_folder_filled(mirror, tmp_path):
    store = mirror({"a": b"1", "a/b": b"2", "c": b"3"}).store
    kept = Kept(store, tmp_path)
    assert (kept.folder / "c").read_bytes() == b"3"
    (kept.folder / "d").write_bytes(b"4")
    assert kept.mirrors.end(kept.keeper) == ""
    assert store.get("ckpt/d") == b"4"
    assert kept.log.count("cannot be a file here") == 1
    assert not [line for line in kept.log.splitlines() if "filled" in line]


def test_an_object_that_is_called_as_the_last_word_of_a_mirror_ends_no_job(mirror, tmp_path):
    kept = Kept(mirror({"gputrain-unsaved:" + "x" * 300: b"1", "c": b"3"}).store, tmp_path)
    assert (kept.folder / "c").read_bytes() == b"3"
    assert kept.mirrors.end(kept.keeper) == ""
    assert "cannot be a file here" in kept.log


def test_a_mirror_that_is_killed_is_told_while_the_job_goes_on(mirror, tmp_path):
    kept = Kept(mirror({}).store, tmp_path)
    (pid,) = kept.mirrors.pids
    os.kill(pid, signal.SIGKILL)
    until(lambda: "nothing more of gs://my-bucket/ckpt is saved" in kept.log)
    assert "unknown" in kept.mirrors.end(kept.keeper)


def test_a_stop_while_a_folder_is_filled_waits_for_no_bucket(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("GCE_METADATA_HOST", host)
        monkeypatch.setattr(Node, "waiting", lambda _: Rules(float("inf"), "", 60.0))
        silent.setblocking(False)
        asked = []

        def word(_):
            with contextlib.suppress(BlockingIOError):
                asked.append(silent.accept())
            return SHUTDOWN if asked else ""

        monkeypatch.setattr(Node, "word", word)
        began = time.monotonic()
        with pytest.raises(keepers.Stopped):
            Kept(SimpleNamespace(_storage=f"http://{host}"), tmp_path)
    assert time.monotonic() - began < 20


def test_a_power_button_that_is_pressed_while_the_rest_is_sent_is_heard(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(Node, "asked", SHUTDOWN)
    kept = Kept(mirror({}).store, tmp_path)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        kept.mirrors.end(kept.keeper)
    finally:
        signal.sigtimedwait({signal.SIGTERM}, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert kept.keeper.asked == SHUTDOWN
