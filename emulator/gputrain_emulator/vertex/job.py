"""One custom job of the emulated world, as its parts share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.clock import Event
from gputrain_emulator.quotas import Key
from gputrain_emulator.vertex.life import Life
from gputrain_emulator.world import Project


@dataclass(kw_only=True, eq=False)
class Job:
    """One custom job: its spec as JSON and its life."""

    project: Project
    region: str
    id: str
    serial: int
    document: dict[str, Any]  # CustomJob as created, without its output fields
    needs: tuple[tuple[Key, float], ...]  # what it charges
    machines: Mapping[str, int]  # machine type -> how many
    life: Life = field(init=False)
    starting: tuple[str, ...] = ()  # the replicas that a runtime is asked to start
    told: int = 0  # how many states of its history have been logged
    vain: int = 0  # how many looks for machines in vain were known
    event: Event | None = None

    @property
    def name(self) -> str:
        """The resource name, with the project's number as Google writes it."""
        return f"projects/{self.project.number}/locations/{self.region}/customJobs/{self.id}"

    @property
    def replicas(self) -> tuple[str, ...]:
        return self.life.ask.replicas

    def times(self) -> dict[str, float]:
        """Seconds since 1970, by the field's name; only those that have come."""
        life = self.life
        all_times = {
            "create_time": life.created,
            "start_time": life.started,
            "end_time": life.ended,
            "update_time": life.updated,
        }
        return {name: when for name, when in all_times.items() if when is not None}
