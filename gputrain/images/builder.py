"""Builds a project's images, once each: in Cloud Build, or with this machine's own docker or podman.

To Cloud Build the recipe goes through the bucket, and the log comes back through it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from gputrain.display.table import TableDisplay
from gputrain.errors import AuthError, RequestError
from gputrain.fields import invalid
from gputrain.google import Api, GoogleClient, MissingError, Objects
from gputrain.google.forms import Json, mapping, mappings, texts
from gputrain.google.registry import ImageName, find_digest
from gputrain.google.storage import CHUNK_BYTES, BucketPrefix, check_bucket, upload
from gputrain.images.recipe import DOCKERFILE, Recipe, recipe
from gputrain.images.repository import ImageRepository
from gputrain.retry import LOOK, ONCE, READ
from gputrain.spec.image import Builder, Image

log = logging.getLogger("gputrain")

OnLine = Callable[[str], None]
"""Takes each line that a build writes."""

_KEPT_LINES = 20
TAG = "gputrain"
ENGINE = "gcr.io/cloud-builders/docker"
LIMIT_S = 3600
"""Of a build, and of its wait for a machine."""
POLL_S = 3.0
_LIVING = ("PENDING", "QUEUED", "WORKING")


@attrs.frozen(kw_only=True)
class BuiltImage(TableDisplay):
    """An image of a recipe: its name by content, and its digest once it is built."""

    title: str
    name: str
    """With a tag that what went in has drawn."""
    digest: str = ""
    """Empty: it is not built yet."""

    @property
    def reference(self) -> str:
        """What a job runs: its digest, once there is one."""
        return f"{self.name}@{self.digest}" if self.digest else self.name

    def to_dict(self) -> dict[str, str]:
        """The image as JSON types."""
        return {"name": self.name, "digest": self.digest, "reference": self.reference}

    def __str__(self) -> str:
        """One sentence of it."""
        if self.digest:
            return f"{self.title} is built: {self.name}"
        return f"{self.title} would be built: {self.name}"


@attrs.define(kw_only=True, eq=False)
class ImageBuilder:
    """Where a project's images are built and kept. What is to be built goes through the bucket to a region's
    Cloud Build, and its log comes back there.
    """

    access: GoogleClient
    repository: ImageRepository
    bucket: BucketPrefix
    region: str

    def find(self, image: Image) -> BuiltImage:
        """The image, built or not; nothing is made. One read."""
        return self._asked(image)[1]

    def build(
        self, image: Image, *, on_line: OnLine = log.info, create_repository: bool = False
    ) -> BuiltImage:
        """The image, built unless it is there; two processes that build the same share one build.

        A build keeps running when this process ends; the next call finds it.

        Args:
            on_line: takes each line that the build writes.
            create_repository: make the repository where there is none.

        Raises:
            RequestError: the build failed, with the last lines of its log.
        """
        made, found = self._asked(image)
        if found.digest:
            return found
        if create_repository:
            self.repository.create(self.access, image)
        else:
            self.repository.check(self.access, image)
        if image.builder is Builder.CLOUD_BUILD:
            self._run_cloud_build(made, found.name, on_line)
        else:
            _run_engine(self.access, image.builder.value, made, found.name, on_line)
        digest = self._digest(found.name)
        if not digest:
            raise RequestError(
                f"{found.name} was built, and is not in its registry",
                fix="build it again; somebody may have removed it, or a rule of the repository did",
            )
        return attrs.evolve(found, digest=digest)

    def _asked(self, image: Image) -> tuple[Recipe, BuiltImage]:
        made = recipe(image)
        name = self.repository.image_name(made.tag)
        return made, BuiltImage(title=image.title, name=name, digest=self._digest(name))

    def _digest(self, name: str) -> str:
        parsed = ImageName.parse(name)
        assert parsed is not None, name  # `ImageRepository` makes no others
        try:
            return find_digest(self.access, parsed, policy=LOOK) or ""
        except MissingError:
            return ""

    def _run_cloud_build(self, recipe: Recipe, name: str, on_line: OnLine) -> None:
        """Build and push an image; a build of the same that lives already is watched instead."""
        access, bucket, region = self.access, self.bucket, self.region
        mark = hashlib.sha256(name.encode()).hexdigest()[:40]  # the name tells content and repository
        wanted = f'tags="{mark}" AND ({" OR ".join(f"status={one}" for one in _LIVING)})'
        params = {"filter": wanted, "pageSize": 1}
        living = access.get(self._builds_url, action="look for builds", params=params, policy=READ)
        started = next(iter(mappings(living.get("builds"))), None)
        build = str((started or self._start_build(recipe, name, mark))["id"])
        objects, log = Objects(access, bucket.name), bucket.object_name("images", "logs", f"log-{build}.txt")
        read, last, since = 0, deque[str](maxlen=_KEPT_LINES), access.now()
        while access.now() - since < 2 * LIMIT_S:
            seen = access.get(f"{self._builds_url}/{build}", action="look at the build", policy=READ)
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
                raise _build_error(region, build, name, seen, last)
            access.sleep(POLL_S)
        raise RequestError(
            f"the build of {name} did not end within {2 * LIMIT_S // 3600} hours",
            fix=f"gcloud builds cancel {build} --region {region}, and find out what it waits for",
        )

    def _start_build(self, recipe: Recipe, name: str, mark: str) -> Mapping[str, Any]:
        access, bucket = self.access, self.bucket
        check_bucket(access, bucket)
        sent = bucket.object_name("images", recipe.archive.name)
        generation = str(upload(access, bucket, sent, recipe.archive.data))
        body = {
            "source": {"storageSource": {"bucket": bucket.name, "object": sent, "generation": generation}},
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
        answer = access.post(self._builds_url, action="start a build", policy=ONCE, json=body)
        started = mapping(mapping(answer.get("metadata")).get("build"))
        if not started.get("id"):
            raise RequestError("Cloud Build named no build", why=str(answer)[:200], fix="build it again")
        return started

    @property
    def _builds_url(self) -> str:
        client = self.access
        return f"{client.url(Api.CLOUDBUILD)}/v1/projects/{client.project}/locations/{self.region}/builds"


def _run_engine(access: GoogleClient, program: str, recipe: Recipe, name: str, on_line: OnLine) -> None:
    """Build and push with docker or podman: it pulls as this machine's user, and pushes with our token."""
    found = shutil.which(program)
    if found is None:
        fix = f"install {program}, or leave builder out: Cloud Build needs nothing here"
        raise invalid("builder", program, "a program of this machine", fix, what="the image cannot be built")
    platform = "linux/arm64" if "arm64" in name or "aarch64" in name else "linux/amd64"
    with tempfile.TemporaryDirectory(prefix="gputrain-image-") as folder:
        with tarfile.open(fileobj=io.BytesIO(recipe.archive.data)) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # since 3.10.12 and 3.11.4
            tar.extractall(folder)  # noqa: S202  # we packed it
        words = ["build", "--platform", platform, "--file", os.path.join(folder, DOCKERFILE), "--tag", name]
        _run([found, *words, folder], f"{name} was not built", on_line)
    with tempfile.TemporaryDirectory(prefix="gputrain-push-") as folder:
        path = os.path.join(folder, "config.json")
        token = access.token()
        if not token:
            raise AuthError("there is no token to push with", fix="gcloud auth application-default login")
        login = base64.b64encode(f"oauth2accesstoken:{token}".encode()).decode()
        settings = {**_engine_of(folder), "auths": {name.partition("/")[0]: {"auth": login}}}
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            json.dump(settings, file)
        env = {**os.environ, "DOCKER_CONFIG": folder, "REGISTRY_AUTH_FILE": path}
        _run([found, "push", name], f"{name} was not pushed", on_line, env)


def _engine_of(folder: str) -> dict[str, str]:
    """Bring into another folder of settings which engine docker speaks to (colima, Docker Desktop and a
    rootless docker are contexts); what to add to them. Source: docs.docker.com, contexts, read 2026-11-23.
    """
    own = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    with contextlib.suppress(OSError, shutil.Error):
        shutil.copytree(os.path.join(own, "contexts"), os.path.join(folder, "contexts"))
    with contextlib.suppress(OSError, ValueError, AttributeError):
        with open(os.path.join(own, "config.json"), encoding="utf-8") as file:
            current = json.load(file).get("currentContext")
        if isinstance(current, str):
            return {"currentContext": current}
    return {}


def _run(words: Sequence[str], failure: str, on_line: OnLine, env: Mapping[str, str] | None = None) -> None:
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            kept.append(line)
            on_line(line)
    if process.returncode != 0:
        why = f"{os.path.basename(words[0])} {words[1]} ended with {process.returncode}"
        raise RequestError(failure, why=why + "".join(f"\n  {one}" for one in kept), fix="fix what it names")


def _build_error(region: str, build: str, name: str, seen: Json, lines: Iterable[str]) -> RequestError:
    failure = mapping(seen.get("failureInfo"))
    parts = [str(seen.get("status")), *texts([failure.get("type"), failure.get("detail")])]
    return RequestError(
        f"{name} was not built",
        why=": ".join(parts) + "".join(f"\n  {line}" for line in lines),
        fix=f"gcloud builds log {build} --region {region}",
        raw=seen,
    )
