"""A folder's files in a bucket, while a script that knows nothing of it overwrites them and is killed.

Whatever the moment: each generation of an object is a file as its writer closed it.
"""

import hashlib
import random
import signal
import subprocess
import sys
import time

import pytest

import gputrain_emulator
from gputrain.entrypoint import processes
from gputrain.keeper import whole
from gputrain.keeper.mirror import Mirror
from gputrain.keeper.store import Store
from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from gputrain_emulator.storage import Storage

SAVES = """
import hashlib, os, sys, time
folder, pause, stall = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
for step in range(10_000):
    body = os.urandom(300_000) + b"step %d" % step
    with open(os.path.join(folder, "latest.pt"), "wb", buffering=0) as file:
        for start in range(0, len(body), 30_000):
            file.write(body[start : start + 30_000])
            time.sleep(pause + stall * (start == 150_000))
        file.write(hashlib.sha256(body).digest())
    print(step, flush=True)
    time.sleep(pause * 30)
"""


def step_of(data):
    """The step of a file that is whole; a torn one fails the test."""
    body, digest = data[:-32], data[-32:]
    assert hashlib.sha256(body).digest() == digest, f"torn: {len(data)} bytes"
    return int(body[300_000:].split()[1])


@pytest.fixture
def storage(monkeypatch):
    """The address of an emulated Cloud Storage, and a reader of one object's generations."""
    monkeypatch.setattr(whole, "SETTLE_S", 0.3)
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        caller = cloud.world.callers.add("vm@p")
        token = lambda _: (cloud.world.callers.issue(caller), 3600)  # noqa: E731
        account = Account(email="vm@p", scopes=("x",), mint=token)
        server = MetadataServer(Metadata(read=lambda: {"instance": {}}, accounts={"vm@p": account}))
        monkeypatch.setenv("GCE_METADATA_HOST", server.host)
        yield cloud
        server.close()


@pytest.mark.parametrize("seed", range(6))
def test_no_kill_leaves_half_a_file_in_the_bucket(storage, tmp_path, seed):
    draw = random.Random(seed)
    folder, killed = tmp_path / "folder", tmp_path / "killed"
    folder.mkdir()
    store = Store(storage.endpoints.storage, "my-bucket", "ckpt/", 0)
    mirror = Mirror(store, str(folder), 0, whole.Wholeness(str(killed), is_strict=True))
    mirror.fill()
    seen = []

    def look():
        data = store.get("ckpt/latest.pt")
        if data is not None:
            seen.append(step_of(data))

    pause = draw.choice([0.0, 0.002, 0.02])
    words = [sys.executable, "-c", SAVES, folder, str(pause), str(draw.choice([0, 0.7]))]
    writer = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    end = time.monotonic() + draw.uniform(0.2, 2.5)
    while time.monotonic() < end:
        mirror.round()
        look()
    writer.send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
    mirror.round()
    writer.wait()
    processes.note_killed(str(killed), time.time())
    for is_last in (False, True):
        mirror.round(is_last)
        look()
    assert seen == sorted(seen)


def test_a_file_that_a_living_process_closed_goes_at_once_at_the_end(storage, tmp_path):
    folder, killed = tmp_path / "folder", tmp_path / "killed"
    folder.mkdir()
    store = Store(storage.endpoints.storage, "my-bucket", "ckpt/", 0)
    mirror = Mirror(store, str(folder), 0, whole.Wholeness(str(killed), is_strict=True))
    mirror.fill()
    processes.note_killed(str(killed), time.time() - 1)  # another rank, before this one saved
    (folder / "saved").write_bytes(b"whole")
    mirror.round(is_last=True)
    assert store.get("ckpt/saved") == b"whole"


def test_a_file_in_use_is_not_sent_and_its_marker_waits(storage, tmp_path):
    folder = tmp_path / "folder"
    (folder / "step-1").mkdir(parents=True)
    store = Store(storage.endpoints.storage, "my-bucket", "ckpt/", 0)
    mirror = Mirror(store, str(folder), 0, whole.Wholeness(str(tmp_path / "killed"), is_strict=True))
    mirror.fill()
    with open(folder / "step-1" / "model", "wb") as file:
        file.write(b"half")
        file.flush()
        (folder / "step-1" / "COMPLETE").write_bytes(b"")
        mirror.round(is_last=True)
        assert store.items() == {}
    mirror.round(is_last=True)
    assert set(store.items()) == {"step-1/model", "step-1/COMPLETE"}


def test_shards_of_others_come_when_a_job_begins_and_not_while_it_runs(storage, tmp_path, monkeypatch):
    monkeypatch.setattr("gputrain.keeper.mirror.LIST_EVERY_S", 0.0)
    nodes = []
    for node in range(3):
        folder = tmp_path / str(node)
        folder.mkdir()
        store = Store(storage.endpoints.storage, "my-bucket", "ckpt/", node)
        nodes.append(
            Mirror(store, str(folder), node, whole.Wholeness(str(tmp_path / "killed"), is_strict=True))
        )
        nodes[-1].fill()
    for node in range(3):
        (tmp_path / str(node) / "step-1").mkdir()
        (tmp_path / str(node) / "step-1" / f"shard-{node}").write_bytes(bytes(2_000_000))
        (tmp_path / str(node) / "step-1" / f"word-{node}").write_bytes(b"here")
        nodes[node].round(is_last=True)
    for mirror in nodes:
        mirror.round()
    words = [f"word-{node}" for node in range(3)]
    for node, shards in enumerate((["shard-0"], ["shard-0", "shard-1"], ["shard-0", "shard-2"])):
        assert sorted(path.name for path in (tmp_path / str(node) / "step-1").iterdir()) == [*shards, *words]
    late = tmp_path / "late"
    late.mkdir()
    store = Store(storage.endpoints.storage, "my-bucket", "ckpt/", 1)
    Mirror(store, str(late), 1, whole.Wholeness(str(tmp_path / "killed"), is_strict=True)).fill()
    assert len(list((late / "step-1").iterdir())) == 6
    for path in (
        tmp_path / "0" / "step-1"
    ).iterdir():  # node 0 keeps fewer checkpoints: nobody's shard is left
        path.unlink()
    (tmp_path / "0" / "step-1").rmdir()
    for mirror in nodes:
        mirror.round()
    assert store.items() == {}
    assert not (tmp_path / "2" / "step-1").exists()
