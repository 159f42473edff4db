"""What is logged and traced of a job: the fields of its events, in one place for all who look."""

from __future__ import annotations

import logging

from gputrain.job.events import Changes
from gputrain.job.facts import Facts
from gputrain.lifecycle import State
from gputrain.spans import trace

log = logging.getLogger("gputrain")


def tell(job: Facts, before: State) -> None:
    """Log that a job stands otherwise; the record's ``gputrain`` holds the event as JSON types.

    Its end is traced as one span, from when ranks first ran to when it ended.
    """
    if log.isEnabledFor(logging.INFO):
        event = Changes(job, job.now).next()
        told = {} if event is None else {**event.to_dict(), "kind": "state", "before": before.value}
        log.info("%s is %s", job.id, job.state, extra={"gputrain": told})
    if job.state.is_terminal:
        facts = {"gputrain.job.uri": job.uri, "gputrain.job.state": job.state.value}
        trace("gputrain.job", job.started_at, job.ended_at, facts, is_error=job.state is not State.SUCCEEDED)
