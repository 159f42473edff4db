"""Which image a tag means today: its digest, asked of the registry."""

from __future__ import annotations

import logging

from gputrain.errors import GputrainError
from gputrain.gcp import Access
from gputrain.gcp.registry import ImageName, find_manifest

log = logging.getLogger("gputrain")


def pinned(access: Access, image: str) -> str:
    """The image by its digest where Google's registry tells it, else as it was given.

    The job then runs what the tag meant when it was submitted, on every node and after every restart.
    A registry that does not answer is no obstacle: who pulls is Vertex AI, not we.
    """
    name = ImageName.parse(image)
    if name is None or "@" in image:
        return image
    return access.once(f"image {image}", lambda: _asked(access, image, name))


def _asked(access: Access, image: str, name: ImageName) -> str:
    try:
        found = find_manifest(access, name)
    except GputrainError as error:
        log.info("%s stays a tag: %s", image, error.why)
        return image
    return name.by_digest(found.digest) if found is not None and found.digest else image
