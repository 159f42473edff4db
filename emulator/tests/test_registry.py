"""Container images, as an engine asks a registry for them."""

from __future__ import annotations

import hashlib

import pytest
import requests

from gputrain_emulator import Cloud

IMAGE = "us-docker.pkg.dev/my-project/train/image:1"
PATH = "my-project/train/image"


def ask(cloud: Cloud, path: str, verb: str = "GET", **headers: str) -> requests.Response:
    return requests.request(verb, f"{cloud.endpoints.registry}/v2/{path}", headers=headers, timeout=10)


@pytest.mark.parametrize("platforms", [("linux/amd64",), ("linux/amd64", "linux/arm64")])
def test_an_image_has_one_manifest_under_its_tag_and_its_digest(
    cloud: Cloud, platforms: tuple[str, ...]
) -> None:
    cloud.add_image(IMAGE, platforms)
    by_tag = ask(cloud, f"{PATH}/manifests/1")
    digest = by_tag.headers["Docker-Content-Digest"]
    assert digest == f"sha256:{hashlib.sha256(by_tag.content).hexdigest()}"
    assert by_tag.headers["Content-Type"] == by_tag.json()["mediaType"]
    assert ask(cloud, f"{PATH}/manifests/{digest}").content == by_tag.content
    built = [f"{one['platform']['os']}/{one['platform']['architecture']}"
             for one in by_tag.json().get("manifests", ())]  # fmt: skip
    assert tuple(built) == (platforms if len(platforms) > 1 else ())


def test_only_googles_own_images_are_for_everybody(cloud: Cloud) -> None:
    cloud.add_image(IMAGE)
    token = cloud.world.callers.issue(cloud.caller("stranger@example.com", []))
    headers = {"Authorization": f"Bearer {token}"}
    denied = ask(cloud, f"{PATH}/manifests/1", **headers)
    assert (denied.status_code, denied.json()["errors"][0]["code"]) == (403, "DENIED")
    public = "vertex-ai/training/pytorch-gpu.2-4.py310/manifests/latest"
    assert ask(cloud, public, **headers).status_code == 200
