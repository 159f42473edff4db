"""Google's container registries: the digest that a tag means now, and the CPUs that an image is for."""

from __future__ import annotations

import logging
import re

import attrs

from gputrain.errors import GputrainError
from gputrain.google.client import GoogleClient
from gputrain.google.endpoints import Api
from gputrain.google.forms import mapping, mappings
from gputrain.retry import GLANCE, Policy

_IMAGE = re.compile(
    r"(?P<host>[a-z0-9.-]+\.pkg\.dev|(?:[a-z]+\.)?gcr\.io)/(?P<path>[^@:]+)"
    r"(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPTED = {"Accept": ", ".join(_KINDS)}


@attrs.frozen(kw_only=True)
class ImageName:
    """An image in one of Google's registries; ``reference`` is a digest, or a tag."""

    host: str
    path: str
    reference: str

    @classmethod
    def parse(cls, image: str) -> ImageName | None:
        """The parts of a name; None for an image of another registry, which our token may not go to."""
        found = _IMAGE.fullmatch(image)
        if found is None:
            return None
        reference = found["digest"] or found["tag"] or "latest"
        return cls(host=found["host"], path=found["path"], reference=reference)

    def by_digest(self, digest: str) -> str:
        return f"{self.host}/{self.path}@{digest}"


def resolve_digest(access: GoogleClient, image: str) -> str:
    """The image by its digest, if its name has one or Google's registry knows it; else the name as it is.

    A job then runs the same image on every node and after every restart. A registry that does not answer does
    not stop the job: the machine pulls the image under another identity.
    """
    name = ImageName.parse(image)
    if name is None or "@" in image:
        return image if name is None else name.by_digest(name.reference)
    try:
        digest = find_digest(access, name)
    except GputrainError as error:
        logging.getLogger("gputrain").info("%s stays a tag: %s", image, error.why)
        return image
    return name.by_digest(digest) if digest else image


def by_digest(image: str) -> str:
    """The image where its name holds a digest; else nothing, as a tag may be moved."""
    return image if "@sha256:" in image else ""


def find_digest(access: GoogleClient, image: ImageName, *, policy: Policy = GLANCE) -> str | None:
    """The image's digest now, empty where the registry does not say; None: these endpoints have no registry.

    Raises:
        MissingError: there is no such image.
    """
    url = _url(access, image)
    if not url:
        return None
    response = access.request("HEAD", url, action=f"look up {image.path}", headers=_ACCEPTED, policy=policy)
    digest = re.fullmatch(r"sha256:[0-9a-f]{64}", response.headers.get("Docker-Content-Digest", ""))
    return digest[0] if digest else ""


def read_architectures(access: GoogleClient, image: ImageName) -> frozenset[str]:
    """The CPU architectures of a list of images, as Google names them (``x86_64``, ``arm64``); else none."""
    action = f"read the manifest of {image.path}"
    body = access.get(_url(access, image), action=action, headers=_ACCEPTED, policy=GLANCE)
    platforms = [mapping(one.get("platform")) for one in mappings(body.get("manifests"))]
    names = {str(one.get("architecture", "")) for one in platforms}
    return frozenset(name.replace("amd64", "x86_64") for name in names - {"", "unknown"})


def _url(access: GoogleClient, image: ImageName) -> str:
    base = access.url(Api.REGISTRY).replace("{host}", image.host)
    return f"{base}/v2/{image.path}/manifests/{image.reference}" if base else ""
