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

from gputrain.errors import AuthError, RequestError
from gputrain.fields import refused
from gputrain.gcp import Access, MissingError
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.registry import ImageName, find_manifest, pinned
from gputrain.images import cloud_build, home
from gputrain.images.home import ImageHome
from gputrain.images.recipe import DOCKERFILE, Recipe, recipe
from gputrain.retry import LOOK
from gputrain.spec.image import Builder, Image
from gputrain.tables import Shown

log = logging.getLogger("gputrain")

Told = Callable[[str], None]
"""Takes each line that a build writes."""


@attrs.frozen(kw_only=True)
class BuiltImage(Shown):
    """An image of a recipe: its name by content, and its digest once it is built."""

    title: str
    name: str
    """With a tag that what went in has drawn."""
    digest: str = ""
    """Empty: it is not built yet."""
    seconds: float | None = None
    """How long the last build there took; None: not known."""

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
        took = f", which took {self.seconds / 60:.0f} min last time" if self.seconds else ""
        return f"{self.title} would be built{took}: {self.name}"


@attrs.define(kw_only=True, eq=False)
class Works:
    """Where a project's images are built and kept.

    Args:
        access: whose project.
        home: the repository.
        bucket: what is to be built travels through it, and the builds' logs come back.
        region: where Cloud Build works.
    """

    access: Access
    home: ImageHome
    bucket: BucketPrefix
    region: str

    def find(self, image: Image) -> BuiltImage:
        """The image, built or not; nothing is made. Two reads, and one for each base in Google's registries.

        Raises:
            SpecError: what goes in is not there, or cannot travel.
            AccessError, TransientError: as the registry answers.
        """
        found = self._asked(image)[1]
        if found.digest or image.builder is not Builder.CLOUD_BUILD:
            return found
        return attrs.evolve(found, seconds=cloud_build.last_seconds(self.access, self.region))

    def build(self, image: Image, *, told: Told = log.info, create_repository: bool = False) -> BuiltImage:
        """The image, built unless it is there; two processes that build the same share one build.

        A build goes on where this process ends; the next call finds it.

        Args:
            told: takes each line that the build writes.
            create_repository: make the repository where there is none.

        Raises:
            RequestError: the build failed, with the last lines of its log.
            SpecError, AccessError, TransientError: as for `find`.
        """
        made, found = self._asked(image)
        if found.digest:
            return found
        if create_repository:
            home.create(self.access, self.home, image)
        else:
            home.check(self.access, self.home, image)
        if image.builder is Builder.CLOUD_BUILD:
            cloud_build.run(self.access, self.region, self.bucket, made, found.name, told)
        else:
            _run_engine(self.access, image.builder.value, made, found.name, told)
        digest = self._digest(found.name)
        if not digest:
            raise RequestError(
                f"{found.name} was built, and is not in its registry",
                fix="build it again; somebody may have removed it, or a rule of the repository did",
            )
        return attrs.evolve(found, digest=digest)

    def _asked(self, image: Image) -> tuple[Recipe, BuiltImage]:
        made = recipe(image, lambda base: pinned(self.access, base))
        name = self.home.called(made.tag)
        return made, BuiltImage(title=image.title, name=name, digest=self._digest(name))

    def _digest(self, name: str) -> str:
        parsed = ImageName.parse(name)
        assert parsed is not None, name  # `ImageHome` makes no others
        try:
            found = find_manifest(self.access, parsed, policy=LOOK)
        except MissingError:
            return ""
        return "" if found is None else found.digest


_KEPT_LINES = 20


def _run_engine(access: Access, program: str, recipe: Recipe, name: str, told: Callable[[str], None]) -> None:
    """Build and push an image.

    What the engine pulls, it pulls as this machine's user; it pushes with our token, which lies in a file of
    ours alone while it does.

    Raises:
        SpecError: there is no such program here.
        RequestError: it failed, with its last lines.
        AuthError: there is no token to push with.
    """
    found = shutil.which(program)
    if found is None:
        fix = f"install {program}, or leave builder out: Cloud Build needs nothing here"
        raise refused("builder", program, "a program of this machine", fix, what="the image cannot be built")
    platform = "linux/arm64" if "arm64" in name or "aarch64" in name else "linux/amd64"
    with tempfile.TemporaryDirectory(prefix="gputrain-image-") as folder:
        with tarfile.open(fileobj=io.BytesIO(recipe.archive.data)) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # since 3.10.12 and 3.11.4
            tar.extractall(folder)  # noqa: S202  # we packed it
        words = ["build", "--platform", platform, "--file", os.path.join(folder, DOCKERFILE), "--tag", name]
        _told([found, *words, folder], f"{name} was not built", told)
    with tempfile.TemporaryDirectory(prefix="gputrain-push-") as folder:
        path = os.path.join(folder, "config.json")
        settings = {**_engine_of(folder), "auths": {name.partition("/")[0]: {"auth": _login(access)}}}
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            json.dump(settings, file)
        env = {**os.environ, "DOCKER_CONFIG": folder, "REGISTRY_AUTH_FILE": path}
        _told([found, "push", name], f"{name} was not pushed", told, env=env)


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


def _login(access: Access) -> str:
    """Our token as registries take it from engines."""
    from gputrain.gcp.wire import token_request  # with the session that pushing needs anyway

    access.sign_in()
    headers: dict[str, str] = {}
    access.locked_credentials().before_request(token_request(), "GET", "", headers)
    bearer = next((value for key, value in headers.items() if key.lower() == "authorization"), "")
    if not bearer:
        raise AuthError("there is no token to push with", fix="gcloud auth application-default login")
    return base64.b64encode(f"oauth2accesstoken:{bearer.removeprefix('Bearer ')}".encode()).decode()


def _told(
    words: Sequence[str], failure: str, told: Callable[[str], None], *, env: Mapping[str, str] | None = None
) -> None:
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            kept.append(line)
            told(line)
    if process.returncode != 0:
        why = f"{os.path.basename(words[0])} {words[1]} ended with {process.returncode}"
        raise RequestError(failure, why=why + "".join(f"\n  {one}" for one in kept), fix="mend what it names")
