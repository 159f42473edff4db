"""Which image a tag means today: its digest, asked of the registry."""

from __future__ import annotations

import logging
import re

from gputrain.errors import GputrainError
from gputrain.gcp import Access, Api

log = logging.getLogger("gputrain")

TIMEOUT_S = 5.0
_IMAGE = re.compile(
    r"(?P<host>[a-z0-9.-]+\.pkg\.dev|(?:[a-z]+\.)?gcr\.io)/(?P<path>[^@:]+)(?::(?P<tag>[\w.-]+))?"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TYPES = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


def pinned(access: Access, image: str) -> str:
    """The image by its digest where Google's registry tells it, else as it was given.

    The job then runs what the tag meant when it was submitted, on every node and after every restart.
    A registry that does not answer is no obstacle: who pulls is Vertex AI, not we.
    """
    found = _IMAGE.fullmatch(image)
    if found is None:
        return image
    return access.once(f"image {image}", lambda: _asked(access, image, found))


def _asked(access: Access, image: str, found: re.Match[str]) -> str:
    host, path, tag = found["host"], found["path"], found["tag"] or "latest"
    base = access.url(Api.REGISTRY).replace("{host}", host)
    if not base:
        return image
    try:
        response = access.rest(
            "HEAD",
            f"{base}/v2/{path}/manifests/{tag}",
            action=f"look up {image}",
            headers={"Accept": _TYPES},
            timeout_s=TIMEOUT_S,
        )
    except GputrainError as error:
        log.info("%s stays a tag: %s", image, error.why)
        return image
    digest = response.headers.get("Docker-Content-Digest", "")
    return f"{host}/{path}@{digest}" if _DIGEST.fullmatch(digest) else image
