"""Clients that nobody here wrote against the emulated Cloud Storage: gcsfs, Google's transfer manager, its
discovery documents; nine megabytes up and down, equal to the byte."""

from __future__ import annotations

import io
import json
import random
from importlib.resources import files as files_of
from pathlib import Path
from typing import Any

import pytest
from gcsfs.core import GCSFileSystem
from google.cloud import storage
from google.cloud.storage import transfer_manager
from googleapiclient import discovery
from googleapiclient.errors import HttpError
from googleapiclient.http import MediaIoBaseDownload, MediaIoBaseUpload

from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage
from tests.each import each

BLOCK = 1 << 20
NINE = random.Random(9).randbytes(9 * BLOCK + 17)


@pytest.fixture
def files(cloud: Cloud) -> Any:
    """gcsfs on a cloud with one bucket."""
    cloud.world.part(Storage).add_bucket("bucket-1")
    return GCSFileSystem(
        token="anon", endpoint_url=cloud.endpoints.storage, project=cloud.project, skip_instance_cache=True
    )


@pytest.fixture
def bucket(cloud: Cloud) -> Any:
    cloud.world.part(Storage).add_bucket("bucket-1")
    return storage.Client(
        project=cloud.project,
        credentials=cloud.credentials,
        client_options={"api_endpoint": cloud.endpoints.storage},
    ).bucket("bucket-1")


@pytest.fixture
def service(cloud: Cloud) -> Any:
    """The client that googleapiclient makes of Google's document, told that Google is here."""
    cloud.world.part(Storage).add_bucket("bucket-1")
    place = files_of("googleapiclient.discovery_cache") / "documents" / "storage.v1.json"
    document = {**json.loads(place.read_text("utf-8")), "rootUrl": f"{cloud.endpoints.storage}/"}
    return discovery.build_from_document(document, credentials=cloud.credentials)


def test_gcsfs_writes_block_after_block_and_reads_them_back(files: Any, tmp_path: Path) -> None:
    with files.open("bucket-1/blocks", "wb", block_size=BLOCK) as out:
        for start in range(0, len(NINE), 700_001):
            out.write(NINE[start : start + 700_001])
    (tmp_path / "here").write_bytes(NINE)
    files.put(str(tmp_path / "here"), "bucket-1/put")
    files.get("bucket-1/put", str(tmp_path / "back"))
    assert files.cat("bucket-1/blocks") == NINE
    assert (tmp_path / "back").read_bytes() == NINE


def test_gcsfs_makes_a_bucket_moves_in_it_and_removes_all_of_it(files: Any) -> None:
    files.mkdir("bucket-of-gcsfs")
    for name in ("a", "dir/b", "dir/c"):
        files.pipe(f"bucket-of-gcsfs/{name}", name.encode())
    files.mv("bucket-of-gcsfs/a", "bucket-of-gcsfs/dir/a")
    assert files.ls("bucket-of-gcsfs") == ["bucket-of-gcsfs/dir"]
    assert files.cat("bucket-of-gcsfs/dir/a") == b"a"
    files.rm("bucket-of-gcsfs/dir", recursive=True)
    files.invalidate_cache()
    assert files.ls("bucket-of-gcsfs") == []


def test_gcsfs_moves_by_one_call(cloud: Cloud, files: Any) -> None:
    files.pipe("bucket-1/a", b"a")
    files.mv("bucket-1/a", "bucket-1/b")
    assert [seen.status for seen in cloud.requests if seen.method == "storage.objects.move"] == [200]
    assert not [seen for seen in cloud.requests if seen.method == "storage.objects.rewrite"]


def test_the_official_client_moves_nine_megabytes_both_ways(bucket: Any) -> None:
    bucket.blob("whole").upload_from_string(NINE, checksum="crc32c")
    bucket.blob("chunks", chunk_size=4 * BLOCK).upload_from_file(io.BytesIO(NINE), checksum="md5")
    assert bucket.blob("whole").download_as_bytes(checksum="md5") == NINE
    assert bucket.blob("chunks").download_as_bytes(checksum="crc32c") == NINE


def test_the_transfer_manager_uploads_parts_side_by_side(bucket: Any, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.write_bytes(NINE)
    blob = bucket.blob("dir/parts of it")
    blob.metadata = {"k": "v"}
    transfer_manager.upload_chunks_concurrently(
        str(here), blob, chunk_size=5 * BLOCK, content_type="text/x-mine", worker_type="thread"
    )
    fresh = bucket.get_blob("dir/parts of it")
    assert fresh.download_as_bytes() == NINE
    assert (fresh.metadata, fresh.content_type, fresh.md5_hash) == ({"k": "v"}, "text/x-mine", None)


def test_the_client_of_the_discovery_document_uploads_in_chunks(service: Any) -> None:
    media = MediaIoBaseUpload(io.BytesIO(NINE), "application/x-mine", chunksize=2 * BLOCK, resumable=True)
    made = service.objects().insert(bucket="bucket-1", name="a", media_body=media).execute()
    assert (made["size"], made["contentType"]) == (str(len(NINE)), "application/x-mine")
    back = io.BytesIO()
    download = MediaIoBaseDownload(
        back, service.objects().get_media(bucket="bucket-1", object="a"), 2 * BLOCK
    )
    while not download.next_chunk()[1]:
        pass
    assert back.getvalue() == NINE


def test_a_storage_layout_says_where_a_bucket_is(service: Any) -> None:
    layout = service.buckets().getStorageLayout(bucket="bucket-1").execute()
    assert (layout["location"], layout["locationType"]) == ("US-CENTRAL1", "region")


@each(
    ("body", "reason"),
    [
        ({"name": "fine-name", "banana": 1}, "invalid"),
        (
            {
                "name": "fine-name",
                "lifecycle": {"rule": [{"action": {"type": "Explode"}, "condition": {"age": 1}}]},
            },
            "invalid",
        ),
        ({"name": "fine-name", "storageClass": "BANANA"}, "invalid"),
        ({"name": "fine-name", "location": "MARS"}, "invalid"),
        ({"name": "fine-name", "labels": {"a": 1}}, "invalid"),
        ({"name": "fine-name", "versioning": {"enabled": "yes"}}, "invalid"),
        ({"name": "google-bucket"}, "invalid"),
        ({"name": "g00gle-bucket"}, "invalid"),
        ({"name": "1.2.3.4"}, "invalid"),
        ({"name": "x" * 64}, "invalid"),
        ({"location": "US"}, "required"),
    ],
)
def test_a_bucket_is_read_as_strictly_as_google_reads_it(
    service: Any, cloud: Cloud, body: Any, reason: str
) -> None:
    with pytest.raises(HttpError) as refused:
        service.buckets().insert(project=cloud.project, body=body).execute()
    assert (refused.value.status_code, refused.value.error_details[0]["reason"]) == (400, reason)


@each(
    ("name", "value"),
    [
        ("autoclass", {"enabled": True}),
        ("billing", {"requesterPays": True}),
        ("cors", [{"method": ["GET"]}]),
        ("encryption", {"defaultKmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}),
        ("hierarchicalNamespace", {"enabled": True}),
        ("ipFilter", {"mode": "Enabled"}),
        ("logging", {"logBucket": "other"}),
        ("rpo", "ASYNC_TURBO"),
        ("website", {"mainPageSuffix": "index.html"}),
        ("softDeletePolicy", {"hardDeletePause": {"enabled": True}}),
        ("acl", [{"entity": "allUsers", "role": "READER"}]),
    ],
)
def test_a_rule_that_nobody_keeps_is_refused_by_name(
    service: Any, cloud: Cloud, name: str, value: Any
) -> None:
    body = {"name": "fine-name", name: value}
    with pytest.raises(HttpError) as refused:
        service.buckets().insert(project=cloud.project, body=body).execute()
    assert refused.value.status_code == 501
    assert name in refused.value.reason


def test_what_the_service_alone_writes_is_read_past(service: Any, cloud: Cloud) -> None:
    body = {"name": "fine-name", "metageneration": "77", "timeCreated": "2001-01-01T00:00:00Z"}
    made = service.buckets().insert(project=cloud.project, body=body).execute()
    assert (made["metageneration"], made["timeCreated"][:4]) == ("1", "2026")
