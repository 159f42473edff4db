"""What has no living job, shown before it is removed, and after."""

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
from gputrain.trainer.each import of_each
from gputrain.trainer.planner import Planner


class Orphans(TableDisplay, tuple[Machine, ...]):
    """Orphans that show themselves as a table."""

    left_out: tuple[str, ...] = ()
    """The backends that could not be asked, each with why: there may be more."""

    @property
    def table(self) -> Table:
        """A row for each, with what it costs an hour."""
        is_all = not self and not self.left_out
        nothing = ("No orphaned VMs.",) * is_all
        return Table(
            title="Without a living job",
            columns=("name", "place", "job", "status", "$/h"),
            rows=[(one.name, one.place, one.job_id, one.status, _usd_h(one)) for one in self],
            right=("$/h",),
            caption="\n".join((*nothing, *(f"left out: {one}" for one in self.left_out))),
        )


def _machines(value: Any) -> tuple[Machine, ...]:
    return tuple(map(instance(Machine), instance(Sequence)(value)))


_ONLY = {"only": Field(_machines, "a list of orphans", "give some of those that `orphans` has shown")}


def left_behind(planner: Planner) -> Orphans:
    """What is there of ours and no job's current attempt. Errors as of `of_each`."""
    found, left = of_each(tuple(planner.backends.values()), partial(_of_backend, planner), "orphans")
    orphans = Orphans(chain.from_iterable(found))
    orphans.left_out = left
    return orphans


def removed(planner: Planner, only: Sequence[Machine] | None) -> Orphans:
    """Remove those that were seen, or all that are sure to be none's; what was asked to go.

    What a record of another release, or none that can be read, may speak of goes only where it is named.
    """
    only = read_whole("", _ONLY, {"only": only})["only"]
    found = left_behind(planner)
    wanted = [
        one for one in found
        if ((one.place, one.name) in {(each.place, each.name) for each in only} if only is not None
            else one.attempt and one.is_sure)
    ]  # fmt: skip
    gone = Orphans(wanted)
    gone.left_out = found.left_out
    for backend in planner.backends.values():
        mine = [one for one in wanted if one.backend == backend.name]
        if mine:
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


def _usd_h(one: Machine) -> str:
    return f"{one.price.usd_h:,.2f}" if one.price else "unknown"
