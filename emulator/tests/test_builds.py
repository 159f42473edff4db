"""Images: made by Cloud Build, driven by googleapiclient, and asked for as an engine asks a registry."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import Any

import pytest
import requests

from emulator.tests.test_discovery_client import client
from gputrain_emulator import Cloud
from gputrain_emulator.registry import Registry

PLACE = "projects/my-project/locations/us-central1"
IMAGE = "us-central1-docker.pkg.dev/my-project/team/train:1"
FILES = {"Dockerfile": "FROM python:3.12\nCOPY a.py /\nRUN echo hello\n", "a.py": "pass\n"}


def pack(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def apis(cloud: Cloud, storage_client: Any) -> tuple[Any, Any]:
    """The builds and the repositories of a place whose bucket holds one context."""
    for api in ("cloudbuild", "artifactregistry"):
        cloud.enable_api(api)
    storage_client.create_bucket("b-1").blob("code.tar.gz").upload_from_string(pack(FILES))
    builds = client(cloud, "cloudbuild.v1").projects().locations().builds()
    return builds, client(cloud, "artifactregistry.v1").projects().locations().repositories()


def body(**changes: Any) -> dict[str, Any]:
    return {
        "source": {"storageSource": {"bucket": "b-1", "object": "code.tar.gz"}},
        "steps": [{"name": "gcr.io/cloud-builders/docker", "args": ["build", "-t", IMAGE, "."]}],
        "images": [IMAGE],
        "tags": ["mine"],
        "logsBucket": "gs://b-1/logs",
        "options": {"logging": "GCS_ONLY"},
        **changes,
    }


def ended(cloud: Cloud, builds: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """A build at its end."""
    started = builds.create(parent=PLACE, body=asked).execute()["metadata"]["build"]
    assert started["status"] == "QUEUED"
    cloud.clock.advance(600)
    found: dict[str, Any] = builds.get(name=f"{PLACE}/builds/{started['id']}").execute()
    return found


def test_a_build_pushes_what_its_dockerfile_says(cloud: Cloud, apis: Any, storage_client: Any) -> None:
    builds, repositories = apis
    repositories.create(parent=PLACE, repositoryId="team", body={"format": "DOCKER"}).execute()
    build = ended(cloud, builds, body())
    assert (build["status"], build["results"]["images"][0]["name"]) == ("SUCCESS", IMAGE)
    found = cloud.world.part(Registry).find("my-project/team/train", "1")
    assert found is not None
    log = storage_client.bucket("b-1").blob(f"logs/log-{build['id']}.txt").download_as_text()
    assert "Step 3/3 : RUN echo hello" in log
    assert log.endswith("DONE\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("FROM a\nFLY away\n", "unknown instruction: FLY"),
        ("FROM a\nCOPY b.py /\n", "file not found in build context: b.py"),
        ("\n# nothing\n", "no build stage"),
    ],
)
def test_a_dockerfile_that_docker_refuses_fails_its_step(
    cloud: Cloud, apis: Any, storage_client: Any, text: str, why: str
) -> None:
    storage_client.bucket("b-1").blob("code.tar.gz").upload_from_string(pack({"Dockerfile": text}))
    build = ended(cloud, apis[0], body())
    assert (build["status"], build["failureInfo"]["type"]) == ("FAILURE", "USER_BUILD_STEP")
    assert why in build["failureInfo"]["detail"]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"source": {"storageSource": {"bucket": "b-1", "object": "none"}}}, "FETCH_SOURCE_FAILED"),
        ({}, "PUSH_FAILED"),
    ],
)
def test_a_source_or_a_repository_that_is_not_there_fails_the_build(
    cloud: Cloud, apis: Any, changes: dict[str, Any], kind: str
) -> None:
    build = ended(cloud, apis[0], body(**changes))
    assert (build["status"], build["failureInfo"]["type"]) == ("FAILURE", kind)


def test_builds_are_found_by_tag_and_status_and_cancelled(cloud: Cloud, apis: Any) -> None:
    builds = apis[0]
    ids = [
        builds.create(parent=PLACE, body=body(tags=[tag])).execute()["metadata"]["build"]["id"]
        for tag in "ab"
    ]
    wanted = 'tags="a" AND (status="QUEUED" OR status="WORKING")'
    told = builds.list(parent=PLACE, filter=wanted).execute()["builds"]
    assert [one["id"] for one in told] == ids[:1]
    builds.cancel(name=f"{PLACE}/builds/{ids[0]}", body={}).execute()
    assert builds.list(parent=PLACE, filter=wanted).execute() == {}
    cloud.clock.advance(600)
    assert builds.get(name=f"{PLACE}/builds/{ids[0]}").execute()["status"] == "CANCELLED"


US_IMAGE = "us-docker.pkg.dev/my-project/train/image:1"
PATH = "my-project/train/image"


def ask(cloud: Cloud, path: str, verb: str = "GET", **headers: str) -> requests.Response:
    return requests.request(verb, f"{cloud.endpoints.registry}/v2/{path}", headers=headers, timeout=10)


@pytest.mark.parametrize("platforms", [("linux/amd64",), ("linux/amd64", "linux/arm64")])
def test_an_image_has_one_manifest_under_its_tag_and_its_digest(
    cloud: Cloud, platforms: tuple[str, ...]
) -> None:
    cloud.add_image(US_IMAGE, platforms)
    by_tag = ask(cloud, f"{PATH}/manifests/1")
    digest = by_tag.headers["Docker-Content-Digest"]
    assert digest == f"sha256:{hashlib.sha256(by_tag.content).hexdigest()}"
    assert by_tag.headers["Content-Type"] == by_tag.json()["mediaType"]
    assert ask(cloud, f"{PATH}/manifests/{digest}").content == by_tag.content
    built = [f"{one['platform']['os']}/{one['platform']['architecture']}"
             for one in by_tag.json().get("manifests", ())]  # fmt: skip
    assert tuple(built) == (platforms if len(platforms) > 1 else ())


def test_only_googles_own_images_are_for_everybody(cloud: Cloud) -> None:
    cloud.add_image(US_IMAGE)
    token = cloud.world.callers.issue(cloud.caller("stranger@example.com", []))
    headers = {"Authorization": f"Bearer {token}"}
    denied = ask(cloud, f"{PATH}/manifests/1", **headers)
    assert (denied.status_code, denied.json()["errors"][0]["code"]) == (403, "DENIED")
    public = "vertex-ai/training/pytorch-gpu.2-4.py310/manifests/latest"
    assert ask(cloud, public, **headers).status_code == 200
