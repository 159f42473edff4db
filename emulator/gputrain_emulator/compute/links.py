"""Resource names and their URLs, which are told by their path's tail and never by their host."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

ROOT = "https://www.googleapis.com/compute/v1/"

_RELATIVE = re.compile(r"(?:^|/)(projects/[^/]+/(?:global|zones/[^/]+|regions/[^/]+)(?:/.*)?)$")


def link(relative: str) -> str:
    """The full URL of ``projects/p/zones/z/...``."""
    return ROOT + relative


def relative(url: str) -> str:
    """``projects/p/zones/z/...`` of a full or partial URL; "" when it names no project."""
    match = _RELATIVE.search(url)
    return match.group(1) if match else ""


def last(url: str) -> str:
    """The last segment: a resource's own name."""
    return url.rstrip("/").rpartition("/")[2]


def in_project(url: str, project: str) -> str:
    """``url`` made relative; ``zones/z/...`` and ``global/...`` are taken to be ``project``'s."""
    return relative(url) or f"projects/{project}/{url.lstrip('/')}"


def fingerprint(document: Any) -> str:
    """A fingerprint that changes with the document, as Google's do."""
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
    return base64.urlsafe_b64encode(digest[:8]).decode()
