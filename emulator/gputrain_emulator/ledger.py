"""Everything the emulated cloud committed, row by row, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.clock import Clock, zulu_time


@dataclass(frozen=True, kw_only=True)
class Row:
    """One committed change."""

    time: float
    event: str
    """``create``, ``delete``, ``start``, ``stop``, ``preempt``, ``host-error``, ``refuse``, ..."""
    resource: str
    """Relative name: ``projects/p/zones/z/instances/x``."""
    caller: str
    detail: str = ""


@dataclass(kw_only=True)
class Meter:
    """A price that runs from ``since`` until stopped."""

    resource: str
    price_usd_h: float
    since: float
    until: float | None = None

    def cost_usd(self, now: float) -> float:
        return self.price_usd_h * max(0.0, (now if self.until is None else self.until) - self.since) / 3600


@dataclass
class Ledger:
    """Rows in the order of their commits; ``str(ledger)`` is a table of them."""

    clock: Clock
    rows: list[Row] = field(default_factory=list)
    meters: list[Meter] = field(default_factory=list)
    _running: dict[str, Meter] = field(default_factory=dict)

    def write(self, event: str, resource: str, *, caller: str = "system", detail: str = "") -> Row:
        """Commit one row at the present time."""
        row = Row(time=self.clock.now(), event=event, resource=resource, caller=caller, detail=detail)
        self.rows.append(row)
        return row

    def start_meter(self, resource: str, price_usd_h: float) -> None:
        """``resource`` costs money from now on; a running meter of it is replaced."""
        self.stop_meter(resource)
        meter = Meter(resource=resource, price_usd_h=price_usd_h, since=self.clock.now())
        self._running[resource] = meter
        self.meters.append(meter)

    def stop_meter(self, resource: str) -> None:
        meter = self._running.pop(resource, None)
        if meter is not None:
            meter.until = self.clock.now()

    @property
    def cost_usd(self) -> float:
        """US dollars of everything metered, until now."""
        return sum(meter.cost_usd(self.clock.now()) for meter in self.meters)

    def events(self, event: str, resource: str = "") -> list[Row]:
        """Rows of one event, of resources whose name contains ``resource``."""
        return [row for row in self.rows if row.event == event and resource in row.resource]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __str__(self) -> str:
        header = ("time", "event", "resource", "caller", "detail")
        lines = [
            header,
            *((zulu_time(r.time)[11:19], r.event, r.resource, r.caller, r.detail) for r in self.rows),
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        return "\n".join(
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[4]]
            ).rstrip()
            for line in lines
        )
