"""Builds a project's images, once each: in Cloud Build, or with this machine's own docker or podman."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import attrs

from gputrain.display.table import TableDisplay
from gputrain.errors import AuthError, RequestError
from gputrain.fields import invalid
from gputrain.google import GoogleClient, MissingError
from gputrain.google.registry import ImageName, find_manifest
from gputrain.google.storage import BucketPrefix
from gputrain.images import cloud_build
from gputrain.images.recipe import DOCKERFILE, Recipe, recipe
from gputrain.images.repository import ImageRepository
from gputrain.retry import LOOK
from gputrain.spec.image import Builder, Image

log = logging.getLogger("gputrain")

OnLine = Callable[[str], None]
"""Takes each line that a build writes."""


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
    """Where a project's images are built and kept.

    Args:
        access: whose project.
        repository: where images are pushed to.
        bucket: what is to be built travels through it, and the builds' logs come back.
        region: where Cloud Build runs.
    """

    access: GoogleClient
    repository: ImageRepository
    bucket: BucketPrefix
    region: str

    def find(self, image: Image) -> BuiltImage:
        """The image, built or not; nothing is made. One read.

        Raises:
            SpecError: what goes in is not there, or cannot travel.
            AccessError, TransientError: as the registry answers.
        """
        return self._asked(image)[1]

    def build(
        self, image: Image, *, on_line: OnLine = log.info, create_repository: bool = False
    ) -> BuiltImage:
        """The image, built unless it is there; two processes that build the same share one build.

        A build goes on where this process ends; the next call finds it.

        Args:
            on_line: takes each line that the build writes.
            create_repository: make the repository where there is none.

        Raises:
            RequestError: the build failed, with the last lines of its log.
            SpecError, AccessError, TransientError: as for `find`.
        """
        made, found = self._asked(image)
        if found.digest:
            return found
        if create_repository:
            self.repository.create(self.access, image)
        else:
            self.repository.check(self.access, image)
        if image.builder is Builder.CLOUD_BUILD:
            cloud_build.run(self.access, self.region, self.bucket, made, found.name, on_line)
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
            found = find_manifest(self.access, parsed, policy=LOOK)
        except MissingError:
            return ""
        return "" if found is None else found.digest


_KEPT_LINES = 20


def _run_engine(access: GoogleClient, program: str, recipe: Recipe, name: str, on_line: OnLine) -> None:
    """Build and push an image with docker or podman.

    What the engine pulls, it pulls as this machine's user; it pushes with our token, which lies in a file of
    ours alone while it does.
    """
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
    """Bring into another folder of settings which engine docker speaks to; what to add to them.

    colima, Docker Desktop and a rootless docker are contexts: the engine that has built is to push.
    Source: docs.docker.com/engine/manage-resources/contexts and `docker context inspect`, read 2026-11-23.
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
