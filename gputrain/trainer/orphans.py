"""What has no living job, shown before it is removed, and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gputrain.backends import seam
from gputrain.backends.base import Backend, Orphan
from gputrain.fields import Field, instance, read_whole
from gputrain.tables import Shown, Table


class Orphans(Shown, tuple[Orphan, ...]):
    """Orphans that show themselves as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        """A row for each, with what it costs an hour."""
        caption = "" if self else "nothing: every VM of ours that was looked at has a living job"
        return Table(
            title="Without a living job",
            columns=("name", "place", "job", "status", "$/h"),
            rows=[(one.name, one.place, one.job_id, one.status, _usd_h(one)) for one in self],
            right=("$/h",),
            caption=caption,
        )


def _orphans(value: Any) -> tuple[Orphan, ...]:
    return tuple(map(instance(Orphan), instance(Sequence)(value)))


_ONLY = {"only": Field(_orphans, "a list of orphans", "give some of those that `orphans` has shown")}


def removed(backends: Iterable[Backend], only: Sequence[Orphan] | None) -> Orphans:
    """Remove those that were seen, or all of them; what was removed. Raises SpecError where it is no list."""
    only = read_whole("", _ONLY, {"only": only})["only"]
    return Orphans(one for backend in backends for one in seam.clean_up(backend, only))


def _usd_h(one: Orphan) -> str:
    return f"{one.price.usd_h:,.2f}" if one.price else "unknown"
