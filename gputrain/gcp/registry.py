"""Google's registries of container images: what a name means there today."""

from __future__ import annotations

import logging
import re

import attrs

from gputrain.errors import GputrainError
from gputrain.gcp.api import Access
from gputrain.gcp.endpoints import Api
from gputrain.gcp.forms import mapping, mappings
from gputrain.retry import GLANCE, Policy

log = logging.getLogger("gputrain")

_IMAGE = re.compile(
    r"(?P<host>[a-z0-9.-]+\.pkg\.dev|(?:[a-z]+\.)?gcr\.io)/(?P<path>[^@:]+)"
    r"(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LISTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_ACCEPTED = ", ".join(
    (
        *_LISTS,
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


@attrs.frozen(kw_only=True)
class ImageName:
    """An image in one of Google's registries.

    >>> ImageName.parse("us-docker.pkg.dev/p/train/image:1").reference
    '1'
    """

    host: str
    path: str
    reference: str
    """A digest, or a tag."""

    @classmethod
    def parse(cls, image: str) -> ImageName | None:
        """The parts of a name; None for an image of another registry, which no token of ours may go to."""
        found = _IMAGE.fullmatch(image)
        if found is None:
            return None
        reference = found["digest"] or found["tag"] or "latest"
        return cls(host=found["host"], path=found["path"], reference=reference)

    def by_digest(self, digest: str) -> str:
        """The same image under its digest."""
        return f"{self.host}/{self.path}@{digest}"


@attrs.frozen(kw_only=True)
class Manifest:
    """What a registry tells of an image."""

    digest: str
    """Empty where it is not told."""
    has_platforms: bool
    """True for a list of images, one a platform."""


def pinned(access: Access, image: str) -> str:
    """The image by its digest alone, where it is given or Google's registry tells it, else as it was given.

    The job then runs what the tag meant when it was submitted, on every node and after every restart.
    It is asked each time: a tag that was pushed again means something else now.
    A registry that does not answer is no obstacle: who pulls is the machine, under another identity.
    """
    name = ImageName.parse(image)
    if name is None or "@" in image:
        return image if name is None else name.by_digest(name.reference)
    try:
        found = find_manifest(access, name)
    except GputrainError as error:
        log.info("%s stays a tag: %s", image, error.why)
        return image
    return name.by_digest(found.digest) if found is not None and found.digest else image


def by_digest(image: str) -> str:
    """The image where its name holds a digest; nothing where a tag may come to mean another."""
    return image if "@sha256:" in image else ""


def same_image(image: str, pinned: str) -> bool:
    """Whether a name by digest is one of the image that a tag, or none, stands for.

    >>> same_image("us-docker.pkg.dev/p/team/train:1", f"us-docker.pkg.dev/p/team/train@sha256:{'0' * 64}")
    True
    """
    tagged, digested = ImageName.parse(image), ImageName.parse(pinned)
    if tagged is None or digested is None or "@" in image or "@" not in pinned:
        return False
    return (tagged.host, tagged.path) == (digested.host, digested.path)


def find_manifest(access: Access, image: ImageName, *, policy: Policy = GLANCE) -> Manifest | None:
    """What the registry tells of the image now; None where these endpoints have no registry.

    Raises:
        MissingError: there is no such image.
        AccessError, TransientError: as the registry answers.
    """
    url = _url(access, image)
    if not url:
        return None
    response = access.reply(
        "HEAD", url, action=f"look up {image.path}", headers={"Accept": _ACCEPTED}, policy=policy
    )
    digest = response.headers.get("Docker-Content-Digest", "")
    kind = response.headers.get("Content-Type", "")
    return Manifest(digest=digest if _DIGEST.fullmatch(digest) else "", has_platforms=kind in _LISTS)


def read_architectures(access: Access, image: ImageName) -> frozenset[str]:
    """The CPU architectures of an image that is a list, in Google's words: ``x86_64``, ``arm64``. Raises as
    `find_manifest`.
    """
    body = access.get(
        _url(access, image),
        action=f"read the manifest of {image.path}",
        headers={"Accept": _ACCEPTED},
        policy=GLANCE,
    )
    told = mappings(body.get("manifests"))
    named = (str(mapping(one.get("platform")).get("architecture", "")) for one in told)
    return frozenset(name.replace("amd64", "x86_64") for name in named if name not in ("", "unknown"))


def _url(access: Access, image: ImageName) -> str:
    base = access.url(Api.REGISTRY).replace("{host}", image.host)
    return f"{base}/v2/{image.path}/manifests/{image.reference}" if base else ""
