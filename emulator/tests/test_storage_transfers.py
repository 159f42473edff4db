"""What Google's storage client builds out of single calls: batches, files, many transfers at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage
from google.cloud.storage import transfer_manager

from gputrain_emulator import Cloud
from gputrain_emulator.bodies import LARGE
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


BLOCK = bytes(range(256)) * 4096
BLOCKS = LARGE // len(BLOCK) + 1


def _pieces(head: bytes = b"", tail: bytes = b"") -> Iterator[bytes]:
    yield head + b"first"
    for _ in range(BLOCKS):
        yield BLOCK
    yield b"last" + tail


@pytest.mark.parametrize("kind", ["media", "multipart", "counted", "resumable"])
def test_an_object_of_one_request_may_be_larger_than_what_is_kept_in_memory(
    bucket: Any, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "large"
    with file.open("wb") as out:
        out.writelines(_pieces())
    size = file.stat().st_size
    client = bucket.client
    url = f"{client._connection.API_BASE_URL}/upload/storage/v1/b/bucket/o?name=large&uploadType="
    if kind == "media":  # in chunks: nobody says beforehand how many
        assert client._http.post(f"{url}media", data=_pieces()).ok
    elif kind == "multipart":
        head, tail = b"--xx\r\nA: b\r\n\r\n{}\r\n--xx\r\nA: b\r\n\r\n", b"\r\n--xx--\r\n"
        sent = {"Content-Type": "multipart/related; boundary=xx"}
        assert client._http.post(f"{url}multipart", data=_pieces(head, tail), headers=sent).ok
    elif kind == "counted":
        with file.open("rb") as body:
            assert client._http.post(f"{url}media", data=body).ok
    else:
        with file.open("rb") as body:
            bucket.blob("large").upload_from_file(body, size=size)
    blob = bucket.get_blob("large")
    assert blob.size == size
    back = tmp_path / "back"
    blob.download_to_filename(str(back))
    assert back.read_bytes() == file.read_bytes()
    assert blob.download_as_bytes(start=3, end=size - 2) == file.read_bytes()[3:-1]
