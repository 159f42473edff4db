"""Machines that no living job names, shown before they are removed, and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from gputrain.backends.base import Backend, Machine
from gputrain.display.table import Table, TableDisplay
from gputrain.fields import Field, instance, read_whole
from gputrain.jobstore import Version
from gputrain.orchestration.look import Found, look_many
from gputrain.trainer.jobs import of_each
from gputrain.trainer.planner import Planner


class Orphans(TableDisplay, tuple[Machine, ...]):
    """Orphans that show themselves as a table."""

    left_out: tuple[str, ...] = ()
    """The backends that could not be asked, each with why: there may be more."""

    @property
    def table(self) -> Table:
        """A row for each, with what it costs an hour."""
        nothing = () if self or self.left_out else ("No orphaned VMs.",)
        rows = [
            (
                one.name,
                one.place,
                one.job_id,
                one.status,
                f"{one.price.usd_h:,.2f}" if one.price else "unknown",
            )
            for one in self
        ]
        return Table(
            title="Without a living job", columns=("name", "place", "job", "status", "$/h"), rows=rows,
            right=("$/h",), caption="\n".join((*nothing, *(f"left out: {one}" for one in self.left_out))),
        )  # fmt: skip


def _machines(value: Any) -> tuple[Machine, ...]:
    return tuple(map(instance(Machine), instance(Sequence)(value)))


_ONLY = {"only": Field(_machines, "a list of orphans", "give some of those that `orphans` has shown")}


def left_behind(planner: Planner) -> Orphans:
    """Our machines that belong to no job's current attempt. Errors as of `of_each`."""
    found, left = of_each(tuple(planner.backends.values()), partial(_of_backend, planner), "orphans")
    orphans = Orphans(chain.from_iterable(found))
    orphans.left_out = left
    return orphans


def removed(planner: Planner, only: Sequence[Machine] | None) -> Orphans:
    """Remove those that are named, or all that are sure to be none's; what is being removed.

    What a record of another release, or none that can be read, may name is removed only by name.
    """
    only = read_whole("", _ONLY, {"only": only})["only"]
    found = left_behind(planner)
    named = {(one.place, one.name) for one in only or ()}
    gone = Orphans(
        one for one in found
        if ((one.place, one.name) in named if only is not None else one.attempt and one.is_sure)
    )  # fmt: skip
    gone.left_out = found.left_out
    for backend in planner.backends.values():
        if mine := [one for one in gone if one.backend == backend.name]:
            backend.remove(mine)
    return gone


def _of_backend(planner: Planner, backend: Backend) -> list[Machine]:
    """Machines are listed first: what is launched meanwhile is in its record by then."""
    machines = backend.machines()
    living: set[tuple[str, str]] = set()
    for store in planner.stores if machines else ():
        records = store.list()
        current = [one for one in machines if _is_current(one, records)]
        found = look_many(planner.context(store), sorted({one.job_id for one in current}))
        over = {job_id for job_id, one in found.items() if isinstance(one, Found) and one.is_over}
        living |= {(one.job_id, one.attempt) for one in current if one.job_id not in over}
    return [one for one in machines if (one.job_id, one.attempt) not in living]


def _is_current(machine: Machine, records: Mapping[str, Version]) -> bool:
    there = records.get(machine.job_id)
    return there is not None and bool(machine.attempt) and there.metadata.get("attempt") == machine.attempt
