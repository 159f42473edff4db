"""What a trainer lends to those who launch its jobs and look at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs

from gputrain.backends.base import Backend, Bundle
from gputrain.jobstore import JobRecord, JobStore, read_spec
from gputrain.planning import Blocks, Candidate
from gputrain.spec import TrainingSpec


@attrs.define(eq=False)
class Memory:
    """What the submits and looks of one trainer learn from each other."""

    blocks: Blocks = Blocks()
    """Where there was no room."""
    specs: dict[str, tuple[Mapping[str, Any], TrainingSpec]] = attrs.field(factory=dict)
    """Of each job, as its record holds it and as it was read."""


@attrs.frozen(kw_only=True, eq=False)
class Context:
    """What a trainer lends to the launcher and the reconciler."""

    jobs: JobStore
    backends: Mapping[str, Backend]
    code: Callable[[JobRecord, str], Bundle]
    """The code of a job where a backend looks for it, put there by this call unless it is there."""
    candidates_left: Callable[[JobRecord], tuple[Candidate, ...]]
    """Where a job may go on: of backends that are set as its record says, and find its code."""
    refresh: Callable[[Sequence[Candidate]], tuple[Candidate, ...]]
    """The candidates with facts of now, ranked."""
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    memory: Memory = attrs.field(factory=Memory)
    trial: str = ""
    """The address of the emulator that stands for Google; empty: none does."""

    def spec_of(self, record: JobRecord) -> TrainingSpec:
        """The spec of a record, which is read once. Raises RecordError where it cannot be read."""
        kept, spec = self.memory.specs.get(record.job_id, ({}, None))
        if spec is None or kept != record.spec:
            spec = read_spec(record.spec, record.job_id)
            self.memory.specs[record.job_id] = record.spec, spec
        return spec
