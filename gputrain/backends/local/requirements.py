"""Whether this Python already has what a spec requires."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import metadata


def missing(requirements: Sequence[str], folder: str = "") -> tuple[str, ...]:
    """The requirements that this Python does not satisfy, and those that only pip itself can read.

    A ``.txt`` file is read in ``folder``; one that is not there asks for nothing, and staging refuses it.

    >>> missing(["attrs>=1"])
    ()
    >>> missing(["attrs>=1000"])
    ('attrs>=1000',)
    """
    return tuple(one for one in _each(requirements, folder) if not _is_satisfied(one))


def _each(requirements: Sequence[str], folder: str) -> Iterator[str]:
    if requirements[:1] != ("-r",):
        yield from requirements
        return
    try:
        with open(os.path.join(folder, requirements[1]), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        wanted = line.partition(" #")[0].strip()
        if wanted and not wanted.startswith("#"):
            yield wanted


def _is_satisfied(text: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return False
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return False
    return wanted.url is None and wanted.specifier.contains(version, prereleases=True)
