"""Builds a project's images, once each."""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

from gputrain.errors import RequestError
from gputrain.gcp import Access, MissingError
from gputrain.gcp.registry import ImageName, find_manifest, pinned
from gputrain.images import cloud_build, engine
from gputrain.images.home import ImageHome
from gputrain.images.recipe import Recipe, recipe
from gputrain.retry import LOOK
from gputrain.spec.image import Builder, Image
from gputrain.staging.upload import BucketPrefix

log = logging.getLogger("gputrain")

Told = Callable[[str], None]
"""Takes each line that a build writes."""


@attrs.frozen(kw_only=True)
class BuiltImage:
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

    @property
    def text(self) -> str:
        """One sentence of it."""
        if self.digest:
            return f"{self.title} is built: {self.name}"
        took = f", which took {self.seconds / 60:.0f} min last time" if self.seconds else ""
        return f"{self.title} would be built{took}: {self.name}"


@attrs.frozen(kw_only=True)
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
        """The image, built or not. At most three reads; nothing is made.

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
            self.home.create(self.access)
        else:
            self.home.check(self.access)
        if image.builder is Builder.CLOUD_BUILD:
            cloud_build.run(self.access, self.region, self.bucket, made, found.name, told)
        else:
            engine.run(self.access, image.builder.value, made, found.name, told)
        digest = self._digest(found.name)
        if not digest:
            raise RequestError(
                f"{found.name} was built, and is not in its registry",
                fix="build it again; somebody may have removed it, or a rule of the repository did",
            )
        return attrs.evolve(found, digest=digest)

    def _asked(self, image: Image) -> tuple[Recipe, BuiltImage]:
        base = "" if image.base is None else pinned(self.access, image.base)
        made = recipe(image, base)
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
