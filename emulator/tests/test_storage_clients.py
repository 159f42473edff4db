"""Clients that nobody here wrote against the emulated Cloud Storage: gcsfs, Google's client and its
discovery document; nine megabytes up and down, equal to the byte."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from gcsfs.core import GCSFileSystem
from googleapiclient.errors import HttpError
from googleapiclient.http import MediaIoBaseDownload, MediaIoBaseUpload

from emulator.tests.test_discovery_client import client
from gputrain_emulator import Cloud
from tests.each import each

BLOCK = 1 << 20
NINE = random.Random(9).randbytes(9 * BLOCK + 17)


@pytest.fixture
def files(cloud: Cloud, bucket: Any) -> Any:
    """gcsfs on a cloud with one bucket."""
    return GCSFileSystem(
        token="anon", endpoint_url=cloud.endpoints.storage, project=cloud.project, skip_instance_cache=True
    )


@pytest.fixture
def service(cloud: Cloud, bucket: Any) -> Any:
    """The client that googleapiclient makes of Google's document, told that Google is here."""
    return client(cloud, "storage.v1")


def test_gcsfs_writes_block_after_block_and_reads_them_back(files: Any, tmp_path: Path) -> None:
    with files.open("bucket/blocks", "wb", block_size=BLOCK) as out:
        for start in range(0, len(NINE), 700_001):
            out.write(NINE[start : start + 700_001])
    (tmp_path / "here").write_bytes(NINE)
    files.put(str(tmp_path / "here"), "bucket/put")
    files.get("bucket/put", str(tmp_path / "back"))
    assert files.cat("bucket/blocks") == NINE
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


def test_the_client_of_the_discovery_document_uploads_in_chunks(service: Any) -> None:
    media = MediaIoBaseUpload(io.BytesIO(NINE), "application/x-mine", chunksize=2 * BLOCK, resumable=True)
    made = service.objects().insert(bucket="bucket", name="a", media_body=media).execute()
    assert (made["size"], made["contentType"]) == (str(len(NINE)), "application/x-mine")
    back = io.BytesIO()
    download = MediaIoBaseDownload(back, service.objects().get_media(bucket="bucket", object="a"), 2 * BLOCK)
    while not download.next_chunk()[1]:
        pass
    assert back.getvalue() == NINE


BUCKETS: list[tuple[dict[str, Any], int]] = [
    ({"banana": 1}, 400),
    ({"storageClass": "BANANA"}, 400),
    ({"location": "MARS"}, 400),
    ({"labels": {"a": 1}}, 400),
    ({"versioning": {"enabled": "yes"}}, 400),
    ({"name": "google-bucket"}, 400),
    ({"name": "g00gle-bucket"}, 400),
    ({"name": "1.2.3.4"}, 400),
    ({"name": "x" * 64}, 400),
    ({"name": None}, 400),
    ({"autoclass": {"enabled": True}}, 501),
    ({"billing": {"requesterPays": True}}, 501),
    ({"cors": [{"method": ["GET"]}]}, 501),
    ({"encryption": {"defaultKmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}}, 501),
    ({"hierarchicalNamespace": {"enabled": True}}, 501),
    ({"ipFilter": {"mode": "Enabled"}}, 501),
    ({"lifecycle": {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 1}}]}}, 501),
    ({"logging": {"logBucket": "other"}}, 501),
    ({"retentionPolicy": {"retentionPeriod": "3600"}}, 501),
    ({"defaultEventBasedHold": True}, 501),
    ({"rpo": "ASYNC_TURBO"}, 501),
    ({"website": {"mainPageSuffix": "index.html"}}, 501),
    ({"softDeletePolicy": {"retentionDurationSeconds": "604800"}}, 501),
    ({"versioning": {"enabled": True}}, 501),
    ({"acl": [{"entity": "allUsers", "role": "READER"}]}, 501),
]


@each(("more", "status"), BUCKETS)
def test_a_bucket_is_read_as_strictly_as_google_reads_it_and_a_rule_nobody_keeps_is_refused_by_name(
    service: Any, cloud: Cloud, more: dict[str, Any], status: int
) -> None:
    body = {"name": "fine-name", **more}
    with pytest.raises(HttpError) as refused:
        service.buckets().insert(project=cloud.project, body=body).execute()
    assert refused.value.status_code == status
    assert status == 400 or next(iter(more)) in refused.value.reason


def test_a_batch_deletes_what_it_names(bucket: Any) -> None:
    for name in "abc":
        bucket.blob(name).upload_from_string("x")
    with bucket.client.batch():
        for name in "ab":
            bucket.blob(name).delete()
    assert [blob.name for blob in bucket.list_blobs()] == ["c"]
