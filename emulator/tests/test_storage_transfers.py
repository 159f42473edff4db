"""What Google's storage client builds out of single calls: batches, files, many transfers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage
from google.cloud.storage import transfer_manager

from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage


@pytest.fixture
def bucket(cloud: Cloud) -> Any:
    cloud.world.part(Storage).add_bucket("bucket")
    client = storage.Client(
        project=cloud.project,
        credentials=cloud.credentials,
        client_options={"api_endpoint": cloud.endpoints.storage},
    )
    return client.bucket("bucket")


def test_a_batch_deletes_what_it_names(bucket: Any) -> None:
    for name in "abc":
        bucket.blob(name).upload_from_string("x")
    with bucket.client.batch():
        for name in "ab":
            bucket.blob(name).delete()
    assert [blob.name for blob in bucket.list_blobs()] == ["c"]


def test_an_object_is_written_and_read_as_a_file(bucket: Any) -> None:
    with bucket.blob("file").open("wb", chunk_size=256 * 1024) as out:
        for number in range(100_000):
            out.write(b"%06d\n" % number)
    with bucket.blob("file").open("rb") as back:
        back.seek(7 * 99_999)
        assert back.read() == b"099999\n"


def test_many_files_travel_at_once(bucket: Any, tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text(str(number))
    names = sorted(path.name for path in tmp_path.iterdir())
    sent = transfer_manager.upload_many_from_filenames(
        bucket, names, source_directory=str(tmp_path), worker_type="thread"
    )
    assert sent == [None] * 8
    back = tmp_path / "back"
    transfer_manager.download_many_to_path(
        bucket, names, destination_directory=str(back), worker_type="thread"
    )
    assert [(back / name).read_text() for name in names] == [str(number) for number in range(8)]


def test_one_object_comes_down_in_slices_side_by_side(bucket: Any, tmp_path: Path) -> None:
    data = bytes(range(256)) * 2000
    bucket.blob("sliced").upload_from_string(data)
    here = tmp_path / "sliced"
    transfer_manager.download_chunks_concurrently(
        bucket.blob("sliced"), str(here), chunk_size=100_000, worker_type="thread"
    )
    assert here.read_bytes() == data
