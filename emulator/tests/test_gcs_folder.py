"""Buckets seen as a folder: what is closed there is an object, and what is an object is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputrain_emulator import Cloud
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.storage import Storage


@pytest.fixture
def storage(cloud: Cloud) -> Storage:
    cloud.add_bucket("my-bucket")
    return cloud.storage


@pytest.fixture
def folder(storage: Storage, tmp_path: Path) -> GcsFolder:
    """Kept alike only when told, so that every test says when."""
    made = GcsFolder(storage, tmp_path / "gcs")
    made.close()
    made.sync()
    return made


def objects(storage: Storage) -> dict[str, bytes]:
    return {one.name: one.content.read() for one in storage.objects.walk("my-bucket")}


def put(storage: Storage, name: str, data: bytes) -> None:
    storage.objects.put("my-bucket", name, storage.objects.folder.keep(data))


def test_a_file_is_an_object_once_it_is_closed(storage: Storage, folder: GcsFolder) -> None:
    path = folder.path / "my-bucket" / "a" / "b.txt"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.write(b"half")
        file.flush()
        folder.sync()
        assert objects(storage) == {}
        file.write(b" and half")
    folder.sync()
    assert objects(storage) == {"a/b.txt": b"half and half"}


def test_a_file_that_is_changed_moved_or_removed_takes_its_object_along(
    storage: Storage, folder: GcsFolder
) -> None:
    place = folder.path / "my-bucket"
    for name in ("draft", "old", "kept", "changed"):
        (place / name).write_bytes(name.encode())
    folder.sync()
    written = storage.objects.get("my-bucket", "kept").generation
    (place / "draft").rename(place / "whole")
    (place / "old").unlink()
    (place / "changed").write_bytes(b"again")
    folder.sync()
    assert objects(storage) == {"whole": b"draft", "kept": b"kept", "changed": b"again"}
    assert storage.objects.get("my-bucket", "kept").generation == written, "once for each change"


def test_what_others_put_into_the_bucket_becomes_a_file(storage: Storage, folder: GcsFolder) -> None:
    put(storage, "code/a.txt", b"one")
    folder.sync()
    path = folder.path / "my-bucket" / "code" / "a.txt"
    with path.open("rb") as reader:
        put(storage, "code/a.txt", b"two")
        folder.sync()
        assert path.read_bytes() == b"two"
        assert reader.read() == b"one", "who had it open reads what it was"
    storage.objects.delete("my-bucket", "code/a.txt")
    folder.sync()
    assert not path.exists()


def test_a_file_written_on_both_sides_keeps_what_the_replica_wrote(
    storage: Storage, folder: GcsFolder
) -> None:
    put(storage, "x", b"theirs")
    (folder.path / "my-bucket" / "x").write_bytes(b"ours")
    folder.sync()
    assert objects(storage) == {"x": b"ours"}


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/abs", "a//b", "folder/", "a/./b"])
def test_a_name_that_is_no_path_stays_an_object(storage: Storage, folder: GcsFolder, name: str) -> None:
    put(storage, name, b"x")
    folder.sync()
    assert not [one for one in folder.path.parent.rglob("*") if one.is_file()]
    assert list(objects(storage)) == [name]


def test_a_link_reaches_no_file_of_this_computer(storage: Storage, folder: GcsFolder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    os.symlink(tmp_path / "secret", folder.path / "my-bucket" / "link")
    os.symlink(tmp_path, folder.path / "my-bucket" / "folder")
    folder.sync()
    assert objects(storage) == {}


def test_an_object_and_a_folder_of_one_name_hurt_nobody(storage: Storage, folder: GcsFolder) -> None:
    put(storage, "a", b"file")
    put(storage, "a/b", b"below")
    folder.sync()
    folder.sync()
    assert objects(storage) == {"a": b"file", "a/b": b"below"}
