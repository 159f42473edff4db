"""Whether this Python already has what a spec requires."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import metadata


def missing(requirements: Sequence[str], source_dir: str | None = None) -> tuple[str, ...]:
    """The requirements that this Python does not satisfy, and those that only pip itself can read.

    A ``.txt`` file is looked for in ``source_dir``, then in the current folder.

    >>> missing(["attrs>=1"])
    ()
    >>> missing(["attrs>=1000"])
    ('attrs>=1000',)
    """
    return tuple(one for one in _each(requirements, source_dir) if not _is_satisfied(one))


def _each(requirements: Sequence[str], source_dir: str | None) -> Iterator[str]:
    if requirements[:1] != ("-r",):
        yield from requirements
        return
    name = requirements[1]
    path = os.path.join(source_dir or "", name)
    try:
        with open(path if os.path.exists(path) else name, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError):
        yield name
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
