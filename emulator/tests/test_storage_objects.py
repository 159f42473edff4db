"""The object store without a server: generations, preconditions, listing, uploads, checksums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.buckets import Conditions, Objects
from gputrain_emulator.storage.content import Folder
from gputrain_emulator.storage.resources import page
from gputrain_emulator.storage.uploads import CHUNK, Session, Sessions, split_multipart


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    store = Objects(Folder(lambda: tmp_path / "contents"), now=lambda: 1_800_000_000.0)
    store.buckets.add("bucket", project="p", project_number="123")
    return store


def write(objects: Objects, name: str, data: bytes = b"x", **more: Any) -> Any:
    return objects.put("bucket", name, objects.folder.keep(data), {}, **more)


def status_of(call: Callable[[], object]) -> int:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.status


@settings(max_examples=60)
@given(
    names=st.sets(st.text("ab/é", min_size=1, max_size=6), max_size=20),
    prefix=st.text("ab/", max_size=2),
    delimiter=st.sampled_from(["", "/", "b/"]),
    size=st.integers(1, 5),
)
def test_pages_together_are_the_whole_list_once(
    tmp_path_factory: Any, names: set[str], prefix: str, delimiter: str, size: int
) -> None:
    objects = Objects(Folder(lambda: tmp_path_factory.mktemp("pages")), now=lambda: 1.0)
    objects.buckets.add("bucket", project="p", project_number="1")
    for name in names:
        write(objects, name)
    query = {"prefix": prefix, "delimiter": delimiter}
    whole, folders, _ = page(objects, "bucket", query)
    items, prefixes, token = [], [], ""
    while True:
        found, below, token = page(objects, "bucket", {**query, "maxResults": size, "pageToken": token})
        assert len(found) + len(below) <= size
        items += [item.name for item in found]
        prefixes += below
        if not token:
            break
    assert items == [item.name for item in whole]
    assert prefixes == folders
    inside = sorted(n for n in names if n.startswith(prefix))
    assert items == [n for n in inside if not delimiter or delimiter not in n[len(prefix) :]]


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_multipart_body_keeps_the_bytes_of_its_media(end: bytes) -> None:
    media = b"\r\n--not-the-boundary\r\n\x00\xff"
    lines = (
        b"--B",
        b"Content-Type: application/json",
        b"",
        b'{"name": "a"}',
        b"--B",
        b"Content-Type: text/x",
        b"",
        media,
        b"--B--",
    )
    body = end.join(lines)
    assert split_multipart("multipart/related; boundary=B", body) == (b'{"name": "a"}', "text/x", media)


def a_session(folder: Path) -> Session:
    draft = Folder(lambda: folder).draft()
    return Session(bucket="bucket", name="a", fields={}, conditions=Conditions(), hashes={}, draft=draft)


def test_a_resumable_upload_keeps_whole_chunks_and_goes_on_where_it_was(tmp_path: Path) -> None:
    sessions = Sessions()
    session = sessions.find(sessions.start(a_session(tmp_path)))
    data = bytes(range(256)) * (CHUNK // 256) * 3
    total = len(data)
    assert sessions.take(session, "bytes */*", b"").received == 0
    assert sessions.take(session, f"bytes 0-{CHUNK + 9}/{total}", data[: CHUNK + 10]).received == CHUNK
    sessions.break_next_chunk(CHUNK + 5)
    rest = f"bytes {CHUNK}-{total - 1}/{total}"
    assert status_of(lambda: sessions.take(session, rest, data[CHUNK:])) == 503
    at = sessions.take(session, f"bytes */{total}", b"").received
    assert at == 2 * CHUNK
    done = sessions.take(session, f"bytes {at}-{total - 1}/{total}", data[at:])
    assert done.content is not None
    assert done.content.read() == data
