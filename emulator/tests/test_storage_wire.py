"""Cloud Storage on the wire: headers, encodings, conditions, lists of access, and the parts of an upload."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest
import requests
from google.api_core.exceptions import BadRequest

from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage
from tests.each import each

DAY = 86400.0


@pytest.fixture
def bucket(storage_client: Any) -> Any:
    return storage_client.create_bucket("bucket-1")


def write(bucket: Any, name: str, data: str = "x") -> Any:
    blob = bucket.blob(name)
    blob.upload_from_string(data)
    return blob


def url(cloud: Cloud, path: str) -> str:
    return cloud.endpoints.storage + path


def test_the_date_of_a_reply_is_the_clocks(cloud: Cloud, bucket: Any) -> None:
    cloud.clock.advance(DAY)
    reply = requests.get(url(cloud, "/storage/v1/b/bucket-1"), timeout=10)
    assert reply.headers["Date"] == "Sat, 21 Nov 2026 12:00:00 GMT"


def test_entity_tags_are_conditions(cloud: Cloud, bucket: Any) -> None:
    tag = write(bucket, "a").etag
    for path in ("/storage/v1/b/bucket-1/o/a", "/storage/v1/b/bucket-1/o/a?alt=media"):
        for header, value, status in (
            ("If-None-Match", tag, 304),
            ("If-None-Match", "other", 200),
            ("If-Match", tag, 200),
            ("If-Match", "nope", 412),
        ):
            reply = requests.get(url(cloud, path), headers={header: value}, timeout=10)
            assert reply.status_code == status
    changed = requests.patch(
        url(cloud, "/storage/v1/b/bucket-1"), json={}, headers={"If-Match": "nope"}, timeout=10
    )
    assert changed.status_code == 412


def test_gzip_is_undone_for_who_does_not_take_it(cloud: Cloud, bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(b"plain text"), content_type="text/plain")
    path = url(cloud, "/download/storage/v1/b/bucket-1/o/a?alt=media")
    plain = requests.get(path, headers={"Accept-Encoding": "identity", "Range": "bytes=0-3"}, timeout=10)
    assert (plain.status_code, plain.content) == (200, b"plain text")
    assert "Content-Encoding" not in plain.headers
    packed = requests.get(path, headers={"Accept-Encoding": "gzip"}, timeout=10, stream=True)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.raw.read(decode_content=False)) == b"plain text"
    assert blob.download_as_bytes() == b"plain text"


def test_lists_of_access_are_shown_only_when_asked_for(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a")
    number = cloud.world.projects[cloud.project].number
    for path in ("/storage/v1/b/bucket-1", "/storage/v1/b/bucket-1/o/a"):
        assert "acl" not in requests.get(url(cloud, path), timeout=10).json()
        shown = requests.get(url(cloud, path + "?projection=full"), timeout=10).json()
        assert {"entity": f"project-viewers-{number}", "role": "READER"}.items() <= next(
            one for one in shown["acl"] if "viewers" in one["entity"]
        ).items()
        assert "entity" in shown["owner"]
    assert requests.get(url(cloud, path + "?projection=some"), timeout=10).status_code == 400


def test_under_uniform_access_there_are_no_lists(cloud: Cloud, storage_client: Any) -> None:
    made = storage_client.bucket("uniform")
    made.iam_configuration.uniform_bucket_level_access_enabled = True
    made.create()
    write(made, "a")
    shown = requests.get(url(cloud, "/storage/v1/b/uniform/o/a?projection=full"), timeout=10).json()
    assert "acl" not in shown
    with pytest.raises(BadRequest, match="uniform bucket-level access"):
        made.blob("b").upload_from_string("x", predefined_acl="private")


def test_a_part_in_base64_is_decoded(cloud: Cloud, bucket: Any) -> None:
    body = (
        b"--B\r\nContent-Type: application/json\r\n\r\n{}\r\n--B\r\nContent-Type: text/plain\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b"hello") + b"\r\n--B--"
    )
    path = url(cloud, "/upload/storage/v1/b/bucket-1/o?uploadType=multipart&name=a")
    headers = {"Content-Type": "multipart/related; boundary=B"}
    assert requests.post(path, data=body, headers=headers, timeout=10).status_code == 200
    assert bucket.blob("a").download_as_bytes() == b"hello"


def test_a_body_may_come_in_gzip(cloud: Cloud, bucket: Any) -> None:
    path = url(cloud, "/upload/storage/v1/b/bucket-1/o?uploadType=media&name=a")
    sent = requests.post(path, data=gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"}, timeout=10)
    assert (sent.status_code, bucket.blob("a").download_as_bytes()) == (200, b"hello")
    broken = requests.post(path, data=b"hello", headers={"Content-Encoding": "gzip"}, timeout=10)
    assert broken.status_code == 400


def test_a_head_tells_what_a_get_would(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a", "hello")
    reply = requests.head(url(cloud, "/storage/v1/b/bucket-1/o/a?alt=media"), timeout=10)
    assert (reply.status_code, reply.headers["Content-Length"], reply.content) == (200, "5", b"")
    assert requests.head(url(cloud, "/storage/v1/b/bucket-1/o/b"), timeout=10).status_code == 404


def test_a_move_keeps_what_the_object_says_of_itself(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.metadata = {"k": "v"}
    blob.upload_from_string("x", content_type="text/x-mine")
    moved = bucket.move_blob(blob, "b")
    assert (moved.metadata, moved.content_type) == ({"k": "v"}, "text/x-mine")
    assert [found.name for found in bucket.list_blobs()] == ["b"]


def test_a_compose_may_delete_what_it_is_made_of(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a", "one"), write(bucket, "b", "two")
    body = {"sourceObjects": [{"name": "a"}, {"name": "b"}], "deleteSourceObjects": True}
    reply = requests.post(url(cloud, "/storage/v1/b/bucket-1/o/ab/compose"), json=body, timeout=10)
    assert reply.status_code == 200
    assert [found.name for found in bucket.list_blobs()] == ["ab"]


def test_a_finished_upload_keeps_no_bytes_of_its_own(cloud: Cloud) -> None:
    found = cloud.world.part(Storage)
    found.add_bucket("bucket-2")
    path = url(cloud, "/resumable/upload/storage/v1/b/bucket-2/o?uploadType=resumable&name=a")
    sessions = []
    for _ in range(3):
        sessions.append(requests.post(path, timeout=10).headers["Location"])
        assert requests.put(sessions[-1], data=b"x" * 100_000, timeout=10).status_code == 200
    assert len(list(found.objects.folder.path.iterdir())) == 1
    assert requests.put(sessions[0], data=b"", headers={"Content-Range": "bytes */100000"}, timeout=10).ok
    cloud.clock.advance(7 * DAY + 1)
    assert requests.put(sessions[0], data=b"", timeout=10).status_code == 404


def test_a_signed_address_is_refused_by_name(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a")
    reply = requests.get(url(cloud, "/bucket-1/a?X-Goog-Algorithm=GOOG4&X-Goog-Signature=ab"), timeout=10)
    assert reply.status_code == 501
    assert "signed address" in reply.text


def test_parts_are_held_to_googles_rules(cloud: Cloud, bucket: Any) -> None:
    path = url(cloud, "/bucket-1/a")
    started = requests.post(f"{path}?uploads", timeout=10).text
    upload = started.partition("<UploadId>")[2].partition("<")[0]
    sent = [
        requests.put(f"{path}?partNumber={number}&uploadId={upload}", data=b"small", timeout=10)
        for number in (1, 2)
    ]
    rows = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{reply.headers['ETag']}</ETag></Part>"
        for number, reply in enumerate(sent, 1)
    )
    body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>"
    refused = requests.post(f"{path}?uploadId={upload}", data=body, timeout=10)
    assert (refused.status_code, "EntityTooSmall" in refused.text) == (400, True)
    assert requests.delete(f"{path}?uploadId={upload}", timeout=10).status_code == 204
    gone = requests.put(f"{path}?partNumber=1&uploadId={upload}", data=b"x", timeout=10)
    assert (gone.status_code, "NoSuchUpload" in gone.text) == (404, True)


def test_a_list_that_lets_strangers_in_is_refused(cloud: Cloud, bucket: Any) -> None:
    path = url(cloud, "/upload/storage/v1/b/bucket-1/o?uploadType=media&name=a&predefinedAcl=")
    assert requests.post(path + "private", data=b"x", timeout=10).status_code == 200
    assert requests.post(path + "publicRead", data=b"x", timeout=10).status_code == 501
    assert requests.post(path + "everybody", data=b"x", timeout=10).status_code == 400


def test_a_forgotten_upload_is_given_up_by_the_buckets_rules(cloud: Cloud, bucket: Any) -> None:
    bucket.add_lifecycle_abort_incomplete_multipart_upload_rule(age=1)
    bucket.patch()
    path = url(cloud, "/bucket-1/a")
    upload = requests.post(f"{path}?uploads", timeout=10).text.partition("<UploadId>")[2].partition("<")[0]
    part = f"{path}?partNumber=1&uploadId={upload}"
    assert requests.put(part, data=b"x", timeout=10).status_code == 200
    cloud.clock.advance(DAY)
    assert requests.put(part, data=b"x", timeout=10).status_code == 404


@each(
    ("query", "status"),
    [
        ("fields=items(name,size,metadata/k),nextPageToken,prefixes", 200),
        ("fields=items/acl/entity", 200),
        ("fields=*", 200),
        ("fields=banana", 400),
        ("fields=items(banana)", 400),
        ("fields=items(name", 400),
        ("fields=kind/banana", 400),
        ("alt=banana", 400),
        ("prefix=a&prefixes=b", 400),
        ("versions=maybe", 400),
    ],
)
def test_a_question_is_read_as_strictly_as_a_body(cloud: Cloud, bucket: Any, query: str, status: int) -> None:
    assert requests.get(url(cloud, f"/storage/v1/b/bucket-1/o?{query}"), timeout=10).status_code == status
