"""Networks, as Compute Engine tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputrain.gcp import Access, Api, MissingError
from gputrain.preflight.checks import Check, Finding
from gputrain.preflight.examine import Question
from gputrain.preflight.project import read


def find(access: Access, path: str, action: str) -> dict[str, Any] | None:
    """A resource of Compute Engine by its path, or None where it is not there."""
    try:
        return read(access, Api.COMPUTE, f"/compute/v1/{path}", action=action)
    except MissingError:
        return None


def network(access: Access, path: str, fix: str = "") -> Question:
    """Whether a network (or an attachment) of that path is there.

    Args:
        path: ``projects/P/global/networks/NAME``.
        fix: what to do where it is not.
    """
    name = path.rpartition("/")[2]
    subject = f"network {name}"

    def ask() -> Iterator[Check]:
        if find(access, path, f"look at {path}") is None:
            yield Check(subject=subject, finding=Finding.FAULT, why=f"there is no {path}", fix=fix)
        else:
            yield Check(subject=subject, finding=Finding.OK, why="there")

    return Question(subject=subject, ask=ask)
