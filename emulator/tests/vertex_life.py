"""A custom job's life for tests that need no server: machines, processes and a clock that is a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gputrain_emulator.vertex.endings import Endings, Settings
from gputrain_emulator.vertex.life import Life
from gputrain_emulator.vertex.states import Ask, Fate

TWO = ("workerpool0-0", "workerpool1-0")


class Machines:
    """Quota and machines that answer as the test says, and count what is held."""

    def __init__(self) -> None:
        self.quota = self.stock = True
        self.held_quota = self.held_machines = 0

    def take_quota(self) -> bool:
        self.held_quota += self.quota
        return self.quota

    def take_machines(self) -> bool:
        self.held_machines += self.stock
        return self.stock

    def give_machines(self) -> None:
        self.held_machines -= 1

    def give_quota(self) -> None:
        self.held_quota -= 1


class Processes:
    """A runner; `real` ones report their own end."""

    def __init__(self, *, real: bool = False) -> None:
        self.real = real
        self.on_stop: Callable[[], object] = lambda: None
        self.started: list[tuple[str, ...]] = []
        self.stops = 0

    def start(self, replicas: Sequence[str]) -> bool:
        self.started.append(tuple(replicas))
        return self.real

    def stop(self) -> bool:
        self.stops += 1
        self.on_stop()
        return self.real


SETTINGS = Settings(provision_s=90, start_s=5, run_s=300, cancel_s=15, error_delay_s=60, capacity_retry_s=60)


def a_job(
    machines: Machines | None = None,
    runner: Processes | None = None,
    fate: Fate | None = None,
    settings: Settings = SETTINGS,
    **ask: Any,
) -> Life:
    job = Life(
        ask=Ask(replicas=ask.pop("replicas", TWO), **ask),
        capacity=machines or Machines(),
        runner=runner or Processes(),
        endings=Endings(project_number="123", job_id="77", region="us-central1"),
        settings=settings,
        fate=fate or Fate(),
        created=0.0,
    )
    job.begin()
    return job
