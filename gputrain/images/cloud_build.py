"""Builds images with Cloud Build: the recipe goes through the bucket, the log comes back through it."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gputrain.errors import RequestError
from gputrain.google import Api, GoogleClient, Objects
from gputrain.google.forms import Json, mapping, mappings, texts
from gputrain.google.storage import CHUNK_BYTES, BucketPrefix, check_owner, upload
from gputrain.images.recipe import DOCKERFILE, Recipe
from gputrain.retry import ONCE, READ

TAG = "gputrain"
ENGINE = "gcr.io/cloud-builders/docker"
LIMIT_S = 3600
"""Of a build, and of its wait for a machine."""
POLL_S = 3.0
_LIVING = ("PENDING", "QUEUED", "WORKING")
_TOLD = 20


def run(
    access: GoogleClient,
    region: str,
    bucket: BucketPrefix,
    recipe: Recipe,
    name: str,
    on_line: Callable[[str], None],
) -> None:
    """Build and push an image; a build of the same that lives already is watched instead.

    Raises:
        RequestError: it failed, with the end of its log.
        AccessError, TransientError: as the services answer.
    """
    mark = hashlib.sha256(name.encode()).hexdigest()[:40]  # the name tells content and repository
    wanted = f'tags="{mark}" AND ({" OR ".join(f"status={one}" for one in _LIVING)})'
    params = {"filter": wanted, "pageSize": 1}
    living = access.get(_url(access, region), action="look for builds", params=params, policy=READ)
    started = next(iter(mappings(living.get("builds"))), None)
    build = str((started or _start(access, region, bucket, recipe, name, mark))["id"])
    objects, log = Objects(access, bucket.name), bucket.object_name("images", "logs", f"log-{build}.txt")
    read, last, since = 0, deque[str](maxlen=_TOLD), access.now()
    while access.now() - since < 2 * LIMIT_S:
        seen = access.get(f"{_url(access, region)}/{build}", action="look at the build", policy=READ)
        is_over = seen.get("status") not in _LIVING
        fresh = objects.read_range(log, read, CHUNK_BYTES, policy=READ)
        fresh = fresh if is_over else fresh[: fresh.rfind(b"\n") + 1]
        read += len(fresh)
        for line in fresh.decode("utf-8", "replace").splitlines():
            last.append(line)
            on_line(line)
        if seen.get("status") == "SUCCESS":
            return
        if is_over:
            raise _failed(region, build, name, seen, last)
        access.sleep(POLL_S)
    raise RequestError(
        f"the build of {name} did not end within {2 * LIMIT_S // 3600} hours",
        fix=f"gcloud builds cancel {build} --region {region}, and find out what it waits for",
    )


def _start(
    access: GoogleClient, region: str, bucket: BucketPrefix, recipe: Recipe, name: str, mark: str
) -> Mapping[str, Any]:
    check_owner(access, bucket)
    sent = bucket.object_name("images", recipe.archive.name)
    generation = upload(access, bucket, sent, recipe.archive.data)
    body = {
        "source": {"storageSource": {"bucket": bucket.name, "object": sent, "generation": str(generation)}},
        "steps": [{
            "name": ENGINE, "args": ["build", "--file", DOCKERFILE, "--tag", name, "."],
            "env": ["DOCKER_BUILDKIT=1"],  # RUN --mount needs it (public logs, 2025 and 2026)
        }],
        "images": [name],
        "tags": [TAG, mark],
        "timeout": f"{LIMIT_S}s",
        "queueTtl": f"{LIMIT_S}s",
        "logsBucket": bucket.uri("images", "logs"),
        "options": {"logging": "GCS_ONLY", "machineType": "E2_HIGHCPU_8", "diskSizeGb": "200"},
    }  # fmt: skip
    # twice would build twice, so it is not repeated where it may have been done
    answer = access.post(_url(access, region), action="start a build", policy=ONCE, json=body)
    started = mapping(mapping(answer.get("metadata")).get("build"))
    if not started.get("id"):
        raise RequestError("Cloud Build named no build", why=str(answer)[:200], fix="build it again")
    return started


def _failed(region: str, build: str, name: str, seen: Json, lines: Iterable[str]) -> RequestError:
    failure = mapping(seen.get("failureInfo"))
    parts = [str(seen.get("status")), *texts([failure.get("type"), failure.get("detail")])]
    return RequestError(
        f"{name} was not built",
        why=": ".join(parts) + "".join(f"\n  {line}" for line in lines),
        fix=f"gcloud builds log {build} --region {region}",
        raw=seen,
    )


def _url(access: GoogleClient, region: str) -> str:
    return f"{access.url(Api.CLOUDBUILD)}/v1/projects/{access.project}/locations/{region}/builds"
