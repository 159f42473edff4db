"""The spec that is kept of a job or an experiment: what can be done where it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.errors import ProviderError, SpecError
from gputrain.spec import TrainingSpec


class RecordError(ProviderError):
    """What lies where a record should be is none."""

    kind = "no_record"


def read_spec(kept: Mapping[str, Any], whose: str) -> TrainingSpec:
    """The spec as it was asked for. Raises RecordError where it is none."""
    try:
        return TrainingSpec.from_dict(kept)
    except SpecError as error:
        faults = ", ".join(one.field for one in error.faults)[:200]
        raise RecordError(
            f"the spec that is kept of {whose} cannot be read, so nobody starts it again from here",
            why=f"another release wrote it, or somebody by hand: {faults}",
            fix="take the release that wrote it; job.cancel() and trainer.clean_up() need no spec",
        ) from error
