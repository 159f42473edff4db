"""What has no living job, shown before it is removed, and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from gputrain.backends import seam
from gputrain.backends.base import Backend, CleansUp, Orphan
from gputrain.fields import Field, instance, read_whole
from gputrain.tables import Shown, Table
from gputrain.trainer.each import of_each


class Orphans(Shown, tuple[Orphan, ...]):
    """Orphans that show themselves as a table."""

    left_out: tuple[str, ...] = ()
    """The backends that could not be asked, each with why: there may be more."""

    @property
    def table(self) -> Table:
        """A row for each, with what it costs an hour."""
        is_all = not self and not self.left_out
        nothing = ("nothing: every VM of ours that was looked at has a living job",) * is_all
        return Table(
            title="Without a living job",
            columns=("name", "place", "job", "status", "$/h"),
            rows=[(one.name, one.place, one.job_id, one.status, _usd_h(one)) for one in self],
            right=("$/h",),
            caption="\n".join((*nothing, *(f"left out: {one}" for one in self.left_out))),
        )


def _orphans(value: Any) -> tuple[Orphan, ...]:
    return tuple(map(instance(Orphan), instance(Sequence)(value)))


_ONLY = {"only": Field(_orphans, "a list of orphans", "give some of those that `orphans` has shown")}


def left_behind(backends: Iterable[Backend]) -> Orphans:
    """What has no living job. Errors as of `of_each`."""
    return _of_each(backends, seam.orphans)


def removed(backends: Iterable[Backend], only: Sequence[Orphan] | None) -> Orphans:
    """Remove those that were seen, or all of them; what was removed. Raises SpecError, too: it is no list."""
    only = read_whole("", _ONLY, {"only": only})["only"]
    return _of_each(backends, lambda backend: seam.clean_up(backend, only))


def _of_each(backends: Iterable[Backend], ask: Callable[[Backend], tuple[Orphan, ...]]) -> Orphans:
    told, left = of_each([one for one in backends if isinstance(one, CleansUp)], ask, "orphans")
    orphans = Orphans(chain.from_iterable(told))
    orphans.left_out = left
    return orphans


def _usd_h(one: Orphan) -> str:
    return f"{one.price.usd_h:,.2f}" if one.price else "unknown"
