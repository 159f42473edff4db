"""The object store without a server: generations, preconditions, listing, uploads, checksums."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.conditions import Conditions
from gputrain_emulator.storage.content import Folder
from gputrain_emulator.storage.listing import Wanted, page
from gputrain_emulator.storage.multipart import split_multipart
from gputrain_emulator.storage.objects import Objects, Part
from gputrain_emulator.storage.uploads import CHUNK, Session, Sessions
from tests.each import each

NEW = Conditions(generation_match=0)


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    store = Objects(Folder(lambda: tmp_path / "contents"), now=lambda: 1_800_000_000.0)
    forgetful = {"softDeletePolicy": {"retentionDurationSeconds": "0"}}
    store.buckets.add("bucket", project="p", project_number="123", fields=forgetful)
    return store


def write(objects: Objects, name: str, data: bytes = b"x", **more: Any) -> Any:
    return objects.put("bucket", name, objects.folder.keep(data), {}, **more)


def status_of(call: Callable[[], object]) -> int:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.status


def test_generations_rise_even_when_the_clock_stands_still(objects: Objects) -> None:
    assert write(objects, "a").generation < write(objects, "a").generation < write(objects, "b").generation


def test_generation_zero_means_the_object_must_not_exist(objects: Objects) -> None:
    write(objects, "lock", conditions=NEW)
    assert status_of(lambda: write(objects, "lock", conditions=NEW)) == 412
    objects.delete("bucket", "lock")
    write(objects, "lock", conditions=NEW)


def test_one_of_many_threads_wins_the_lock(objects: Objects) -> None:
    winners: list[int] = []
    losers: list[int] = []
    start = threading.Barrier(16)

    def take(number: int) -> None:
        start.wait()
        try:
            write(objects, "lock", b"%d" % number, conditions=NEW)
        except ApiError as refused:
            losers.append(refused.status)
        else:
            winners.append(number)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(winners), losers) == (1, [412] * 15)
    assert objects.get("bucket", "lock").content.read() == b"%d" % winners[0]


def test_preconditions_on_old_generations_fail_writes_and_deletes(objects: Objects) -> None:
    old = write(objects, "a").generation
    new = write(objects, "a").generation
    stale = Conditions(generation_match=old)
    assert status_of(lambda: write(objects, "a", conditions=stale)) == 412
    assert status_of(lambda: objects.delete("bucket", "a", conditions=stale)) == 412
    objects.delete("bucket", "a", conditions=Conditions(generation_match=new))


def test_a_read_of_what_has_not_changed_is_a_304(objects: Objects) -> None:
    here = write(objects, "a").generation
    asked = Conditions(generation_not_match=here)
    assert status_of(lambda: objects.get("bucket", "a", conditions=asked)) == 304
    assert status_of(lambda: write(objects, "a", conditions=asked)) == 412


def test_a_patch_raises_the_metageneration_only(objects: Objects) -> None:
    before = write(objects, "a")
    after = objects.patch("bucket", "a", {"metadata": {"k": "v"}})
    assert (after.generation, after.metageneration) == (before.generation, 2)
    last = objects.patch("bucket", "a", {"metadata": {"k": None, "l": "w"}})
    assert last.fields["metadata"] == {"l": "w"}
    stale = Conditions(metageneration_match=2)
    assert status_of(lambda: objects.patch("bucket", "a", {}, conditions=stale)) == 412


def test_checksums_are_those_of_the_bytes(objects: Objects) -> None:
    content = write(objects, "a", b"hello world").content
    assert content.md5 == base64.b64encode(hashlib.md5(b"hello world").digest()).decode()
    assert content.crc32c == base64.b64encode(google_crc32c.Checksum(b"hello world").digest()).decode()


def test_a_composed_object_is_its_sources_in_order_and_has_no_md5(objects: Objects) -> None:
    for name in "ab":
        write(objects, name, name.encode() * 3)
    both = objects.compose("bucket", "ab", [Part(name="a"), Part(name="b")], {})
    assert both.content.read() == b"aaabbb"
    assert (both.components, both.content.md5) == (2, "")
    stale = [Part(name="a", conditions=Conditions(generation_match=1))]
    assert status_of(lambda: objects.compose("bucket", "x", stale, {})) == 412
    many = [Part(name="a")] * 33
    assert status_of(lambda: objects.compose("bucket", "x", many, {})) == 400


def test_a_reader_keeps_the_bytes_it_found_through_later_writes(objects: Objects) -> None:
    first = write(objects, "a", b"first" * 100_000)
    write(objects, "a", b"second")
    assert first.content.read() == b"first" * 100_000
    path = first.content.file.path
    del first
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/abs", "a/../b", "..\\x", "a\x00b", "ünïcode/名前", "%2F"]
)
def test_a_name_is_only_ever_a_name(objects: Objects, tmp_path: Path, name: str) -> None:
    write(objects, name, b"data" * 100_000)
    assert objects.get("bucket", name).content.read() == b"data" * 100_000
    assert [file.parent.name for file in tmp_path.rglob("*") if file.is_file()] == ["contents"]


@each("name", ["", ".", "..", "a\nb", "x" * 1025, ".well-known/acme-challenge/x"])
def test_a_name_that_google_refuses_is_refused(objects: Objects, name: str) -> None:
    assert status_of(lambda: write(objects, name)) == 400


def test_buckets_have_one_owner_and_must_be_empty_to_go(objects: Objects) -> None:
    assert status_of(lambda: objects.buckets.add("bucket", project="q", project_number="9")) == 409
    assert status_of(lambda: objects.buckets.add("No", project="q", project_number="9")) == 400
    write(objects, "a")
    assert status_of(lambda: objects.buckets.drop("bucket")) == 409
    objects.delete("bucket", "a")
    objects.buckets.drop("bucket")
    assert status_of(lambda: objects.buckets.get("bucket")) == 404


def test_folders_are_prefixes_of_a_delimited_list(objects: Objects) -> None:
    for name in ("a", "a/1", "a/2/x", "b/", "c"):
        write(objects, name)
    top = page(objects, "bucket", Wanted(delimiter="/"))
    assert ([item.name for item in top.items], top.prefixes) == (["a", "c"], ("a/", "b/"))
    inside = page(objects, "bucket", Wanted(delimiter="/", prefix="a/"))
    assert ([item.name for item in inside.items], inside.prefixes) == (["a/1"], ("a/2/",))
    trailing = page(objects, "bucket", Wanted(delimiter="/", include_trailing_delimiter=True))
    assert [item.name for item in trailing.items] == ["a", "b/", "c"]


def test_globs_cross_folders_only_with_two_stars(objects: Objects) -> None:
    for name in ("a/x.py", "a/b/x.py", "a/x.txt"):
        write(objects, name)
    assert [i.name for i in page(objects, "bucket", Wanted(glob="a/*.py")).items] == ["a/x.py"]
    assert [i.name for i in page(objects, "bucket", Wanted(glob="a/**.{py,txt}")).items] == [
        "a/b/x.py",
        "a/x.py",
        "a/x.txt",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
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
    whole = page(objects, "bucket", Wanted(prefix=prefix, delimiter=delimiter))
    items, prefixes, token = [], [], ""
    while True:
        part = page(
            objects, "bucket", Wanted(prefix=prefix, delimiter=delimiter, page_size=size, page_token=token)
        )
        assert len(part.items) + len(part.prefixes) <= size
        items += [item.name for item in part.items]
        prefixes += part.prefixes
        token = part.next_token
        if not token:
            break
    assert items == [item.name for item in whole.items]
    assert prefixes == list(whole.prefixes)
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


@given(st.binary(max_size=200))
def test_a_broken_multipart_body_is_a_400(body: bytes) -> None:
    assert status_of(lambda: split_multipart('multipart/related; boundary="B"', body)) == 400


def a_session(folder: Path) -> Session:
    draft = Folder(lambda: folder).draft()
    return Session(bucket="bucket", name="a", fields={}, conditions=Conditions(), hashes={}, draft=draft)


def test_a_resumable_upload_keeps_whole_chunks_and_goes_on_where_it_was(tmp_path: Path) -> None:
    sessions = Sessions(lambda: 1.0)
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


def test_a_gap_in_a_resumable_upload_adds_nothing(tmp_path: Path) -> None:
    sessions = Sessions(lambda: 1.0)
    session = sessions.find(sessions.start(a_session(tmp_path)))
    assert sessions.take(session, "bytes 10-11/12", b"xx").received == 0
    assert status_of(lambda: sessions.take(session, "bytes 0-5/12", b"x")) == 400
    assert status_of(lambda: sessions.take(session, "nonsense", b"x")) == 400


def test_an_upload_of_unknown_size_ends_when_its_size_is_told(tmp_path: Path) -> None:
    sessions = Sessions(lambda: 1.0)
    session = sessions.find(sessions.start(a_session(tmp_path)))
    assert sessions.take(session, f"bytes 0-{CHUNK - 1}/*", bytes(CHUNK)).received == CHUNK
    done = sessions.take(session, f"bytes {CHUNK}-{CHUNK + 1}/{CHUNK + 2}", b"ab")
    assert done.content is not None
    assert done.content.size == CHUNK + 2
