"""What has no living job, shown before it is removed, and after."""

from __future__ import annotations

from gputrain.backends.base import Orphan
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


def _usd_h(one: Orphan) -> str:
    return f"{one.price.usd_h:,.2f}" if one.price else "unknown"
