"""A folder and its place in a bucket, when either holds what the other cannot."""

import os
import time

import pytest

import gputrain_emulator
from gputrain.keeper.mirror import AWAITED_S, Mirror
from gputrain.keeper.store import Store
from gputrain.keeper.whole import UNDER_WAY_S, Wholeness
from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from gputrain_emulator.storage import Storage


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Makes a mirror of an empty folder and of a place that holds what is given."""
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        caller = cloud.world.callers.add("vm@p")
        account = Account(
            email="vm@p", scopes=("x",), mint=lambda _: (cloud.world.callers.issue(caller), 3600)
        )
        server = MetadataServer(Metadata(read=lambda: {"instance": {}}, accounts={"vm@p": account}))
        monkeypatch.setenv("GCE_METADATA_HOST", server.host)

        def make(content, node=0):
            folder = tmp_path / ("folder" if node == 0 else f"folder-{node}")
            folder.mkdir()
            store = Store(cloud.endpoints.storage, "my-bucket", "ckpt/", node)
            for name, data in content.items():
                store.put(f"ckpt/{name}", data)
            return Mirror(store, str(folder), node, Wholeness(str(tmp_path / "killed"), is_strict=True))

        yield make
        server.close()


def told(capsys):
    return capsys.readouterr().err


def test_an_object_beside_others_below_its_name_is_left_out_and_said_once(mirror, tmp_path, capsys):
    made = mirror({"a": b"1", "a/b": b"22", "c": b"333"})
    for _ in range(3):
        made.fill()
    assert (tmp_path / "folder" / "c").read_bytes() == b"333"
    assert told(capsys).count("cannot be a file here") == 1


def test_a_name_that_is_too_long_for_a_file_is_left_out(mirror, tmp_path, capsys):
    made = mirror({"x" * 300: b"1", "y" * 255: b"2"})
    made.fill()
    assert os.listdir(tmp_path / "folder") == ["y" * 255]
    assert "too long" in told(capsys)


def test_nothing_is_written_through_a_linked_folder(mirror, tmp_path, capsys):
    outside = tmp_path / "outside"
    outside.mkdir()
    made = mirror({"latest/evil": b"1"})
    os.symlink(outside, tmp_path / "folder" / "latest")
    made.fill()
    assert os.listdir(outside) == []
    assert "a link stands in its way" in told(capsys)


def test_a_linked_file_is_replaced_and_not_written_through(mirror, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    made = mirror({"file": b"theirs"})
    os.symlink(outside, tmp_path / "folder" / "file")
    made.fill()
    assert outside.read_bytes() == b"mine"


def test_a_linked_draft_is_not_written_through(mirror, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    made = mirror({"file": b"theirs"})
    os.symlink(outside, tmp_path / "folder" / ".gputrain-mirror-0.part")
    made.fill()
    assert outside.read_bytes() == b"mine"
    assert (tmp_path / "folder" / "file").read_bytes() == b"theirs"


ODD = (b"bad\xff", b"two\nlines", b"#?%2e&", "\u202e\x1b[2J".encode(), b"y" * 255, b"...")


@pytest.mark.parametrize("name", ODD)
def test_a_file_of_any_name_keeps_no_other_file_from_the_bucket(mirror, tmp_path, capsys, name):
    made = mirror({})
    for one in (name, b"model.pt"):
        (tmp_path / "folder" / os.fsdecode(one)).write_bytes(b"1")
    for _ in range(3):
        made.round(is_last=True)
    made.list()
    sent = made.there.keys()
    assert "model.pt" in sent
    if name in ODD[:2]:  # no object may be called so
        assert told(capsys).count("cannot be an object") == 1
    else:
        assert os.fsdecode(name) in sent


STEP = "step-000000000004"


def test_the_node_that_marks_a_step_sees_the_shards_of_all_at_its_next_look(mirror, tmp_path):
    first, second = mirror({}), mirror({}, node=1)
    for made in (first, second):
        made.fill()
        os.makedirs(os.path.join(made.folder, STEP))
    shard = os.urandom(2 << 20)
    (tmp_path / "folder" / STEP / "rank-0.pt").write_bytes(b"0")
    (tmp_path / "folder-1" / STEP / "rank-1.pt").write_bytes(shard)
    second.round()
    time.sleep(AWAITED_S)
    first.round()
    assert (tmp_path / "folder" / STEP / "rank-1.pt").read_bytes() == shard
    (tmp_path / "folder" / STEP / "COMPLETE").write_bytes(b"{}")
    first.round()
    time.sleep(AWAITED_S)
    second.round()
    assert (tmp_path / "folder-1" / STEP / "COMPLETE").exists()


def test_a_bucket_is_listed_seldom_while_no_step_is_under_way(mirror, tmp_path):
    made = mirror({})
    made.fill()
    os.makedirs(os.path.join(made.folder, STEP))
    for name in ("rank-0.pt", "COMPLETE", "../plain.pt"):
        (tmp_path / "folder" / STEP / name).write_bytes(b"0")
    listed = made._listed_at
    time.sleep(AWAITED_S)
    made.round()
    assert made._listed_at == listed
    os.unlink(tmp_path / "folder" / STEP / "COMPLETE")
    old = time.time() - UNDER_WAY_S
    os.utime(tmp_path / "folder" / STEP / "rank-0.pt", (old, old))
    made.round()
    assert made._listed_at == listed
