"""The real gcloud against the emulated Cloud Storage: its own multipart form, downloads and lists."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gputrain_emulator import Cloud
from gputrain_emulator.gcloud import environment as environment_of
from gputrain_emulator.storage import Storage

PROGRAM = shutil.which("gcloud")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="gcloud is not installed")


@pytest.fixture
def gcloud(cloud: Cloud, tmp_path: Path) -> Callable[..., str]:
    """Runs a `gcloud storage` command with an empty configuration of its own; returns what it prints."""
    cloud.world.part(Storage).add_bucket("my-bucket")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= environment_of(cloud.endpoints.storage, tmp_path / "gcloud", project=cloud.project)

    def run(*words: str) -> str:
        assert PROGRAM is not None
        done = subprocess.run(
            [PROGRAM, "storage", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    return run


def test_a_file_goes_up_is_listed_and_comes_back(gcloud: Callable[..., str], tmp_path: Path) -> None:
    here, back = tmp_path / "here.txt", tmp_path / "back.txt"
    here.write_bytes(b"one\r\n--two\n\x00\xff")
    gcloud("cp", str(here), "gs://my-bucket/a/here.txt")
    assert gcloud("ls", "gs://my-bucket/a/").split() == ["gs://my-bucket/a/here.txt"]
    gcloud("cp", "gs://my-bucket/a/here.txt", str(back))
    assert back.read_bytes() == here.read_bytes()


def test_nine_megabytes_go_up_in_pieces_and_come_back(
    cloud: Cloud, gcloud: Callable[..., str], tmp_path: Path
) -> None:
    here, back = tmp_path / "here.bin", tmp_path / "back.bin"
    here.write_bytes(random.Random(9).randbytes(9 * 1024 * 1024))  # above 8 MiB gcloud uploads resumably
    gcloud("cp", str(here), "gs://my-bucket/dir/here.bin")
    gcloud("cp", "gs://my-bucket/dir/here.bin", str(back))
    assert back.read_bytes() == here.read_bytes()
    assert [seen for seen in cloud.requests if seen.path.startswith("/resumable/upload/")]


def test_all_of_a_bucket_is_removed(cloud: Cloud, gcloud: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    for name in ("a", "dir/b", "dir/c"):
        gcloud("cp", str(tmp_path / "x"), f"gs://my-bucket/{name}")
    gcloud("rm", "--recursive", "gs://my-bucket/dir")
    assert gcloud("ls", "gs://my-bucket").split() == ["gs://my-bucket/a"]
    gcloud("rm", "--recursive", "gs://my-bucket")
    assert cloud.world.part(Storage).buckets.all() == ()


def test_a_bucket_is_made_described_and_changed(gcloud: Callable[..., str]) -> None:
    gcloud(
        "buckets", "create", "gs://made-by-gcloud", "--location=us-central1", "--uniform-bucket-level-access"
    )
    gcloud("buckets", "update", "gs://made-by-gcloud", "--update-labels=team=mine")
    told = json.loads(gcloud("buckets", "describe", "gs://made-by-gcloud", "--format=json", "--raw"))
    assert told["labels"] == {"team": "mine"}
    assert told["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"]
