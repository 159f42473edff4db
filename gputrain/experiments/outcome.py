"""How the points of an experiment ended, and what is asked of their jobs."""

from __future__ import annotations

import attrs

from gputrain import causes
from gputrain.errors import GputrainError
from gputrain.experiments.book import Point
from gputrain.job import Job, Result
from gputrain.tables import Shown


@attrs.frozen(kw_only=True)
class PointOutcome(Shown):
    """How one point ended."""

    point: Point
    job: Job | None
    """None: it could not be submitted."""
    error: GputrainError | None
    """Why there is no result; None where there is one."""
    value: Result | None = attrs.field(repr=False)

    @property
    def result(self) -> Result:
        """The result. Raises the error, where there is one."""
        if self.error is not None:
            raise self.error
        assert self.value is not None
        return self.value


def never_began(job: Job) -> bool:
    """Whether whoever submitted it died before it could ask for machines."""
    return job.failure is not None and job.failure.kind == causes.UNSTARTED.kind


def cancelled(job: Job) -> GputrainError | None:
    """Ask a job to end; the error where that did not work."""
    try:
        job.cancel()
    except GputrainError as error:
        return error
    return None
