"""Exactly one job for one id, on a service that knows no request ids.

::

    look for the label  ->  create  ->  a clear answer: done
                                    ->  a lost answer:  look until the settle window is over, then once more

Two processes may still create at the same moment. Then the containers decide: node 0 of each job tries to
create one lock object, and the job that comes second does nothing and ends. Whoever looks sees the holder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from gputrain.backends.vertex.diagnosis import is_capacity
from gputrain.backends.vertex.jobs import Jobs
from gputrain.backends.vertex.states import Seen
from gputrain.errors import RequestError, TransientError
from gputrain.gcp import LABEL_JOB, UnclearError, filter_text, label_value

log = logging.getLogger("gputrain")

SETTLE_S = 60.0
"""How long a job that was made although its answer was lost may be missing in lists. Google promises none."""

FULL_FOR_S = 1800.0
"""How long a region that had no machines is passed over by the same job id."""

LOOK_EVERY_S = 5.0
TRIES = 3

Holder = Callable[[Seen], str]
"""The number of the job that holds the lock of a job's id; empty where none does."""

_LONG_AGO = datetime.min.replace(tzinfo=timezone.utc)


def label_filter(job_id: str) -> str:
    """The list filter that takes the jobs of one id."""
    return f"labels.{LABEL_JOB}={filter_text(label_value(job_id))}"


def find_all(jobs: Jobs, regions: Sequence[str], job_id: str) -> tuple[Seen, ...]:
    """Every job of that id, in any of the regions."""
    return tuple(seen for region in regions for seen in jobs.list(region, label_filter(job_id)).items)


def effective(found: Sequence[Seen], holder: Holder) -> Seen | None:
    """The one job that counts: the lock's holder; before anyone holds it, the oldest. None where none is.

    A job that ended because its region had no machines does not count: another region may be tried.
    """
    counting = [seen for seen in found if not (seen.has_ended and is_capacity(seen.error))]
    if len(counting) > 1:
        number = holder(counting[0])
        counting = [seen for seen in counting if seen.number == number] or counting
    return min(counting, key=lambda seen: (seen.created_at or _LONG_AGO, seen.number), default=None)


def lately_full(
    jobs: Jobs, found: Sequence[Seen], region: str, body: Mapping[str, Any], now: float
) -> Seen | None:
    """A job of the id that found no such machines in the region a short while ago."""
    full = [seen for seen in found if seen.region == region and seen.has_ended and is_capacity(seen.error)]
    recent = (seen for seen in full if seen.ended_at and now - seen.ended_at.timestamp() < FULL_FOR_S)
    return next((seen for seen in recent if _wants(jobs.document(seen.resource)) == _wants(body)), None)


def _wants(job: Mapping[str, Any]) -> tuple[str, Any]:
    """The machine and the provisioning model that a job asks for."""
    spec = job["jobSpec"]
    machine = spec["workerPoolSpecs"][0]["machineSpec"]
    fields = ("machineType", "acceleratorType", "acceleratorCount")
    return str([machine.get(field) for field in fields]), spec.get("scheduling", {}).get("strategy")


def cancel_extras(jobs: Jobs, found: Sequence[Seen], kept: Seen | None, holder: Holder) -> None:
    """End the jobs of the same id that do nothing, once the lock says which one does."""
    extras = [
        seen for seen in found if kept is not None and seen.number != kept.number and not seen.has_ended
    ]
    if not extras or kept is None or holder(kept) != kept.number:
        return
    for seen in extras:
        log.warning("job %s of %s does nothing beside %s: cancelled", seen.number, kept.job_id, kept.number)
        try:
            jobs.cancel(seen.resource)
        except (RequestError, TransientError) as error:  # it ended by itself, or the next look cancels it
            log.info("could not cancel %s: %s", seen.resource, error)


def create_once(jobs: Jobs, region: str, body: Mapping[str, Any], job_id: str, holder: Holder) -> Seen:
    """Create the job, or take up the one that a lost answer has made.

    Raises:
        UnclearError: the last try was not answered either.
        CapacityError, AccessError, RequestError: as Vertex AI answers.
    """
    for _ in range(TRIES - 1):
        made = _tried(jobs, region, body, job_id, holder)
        if made is not None:
            return made
    try:
        return jobs.create(region, body)
    except UnclearError as error:
        again = "submit again with the same key, which takes up what may have been made"
        error.fix = f"{again}; or look for {job_id} in trainer.jobs()"
        raise


def _tried(jobs: Jobs, region: str, body: Mapping[str, Any], job_id: str, holder: Holder) -> Seen | None:
    try:
        return jobs.create(region, body)
    except UnclearError:
        log.info("the answer for %s was lost; looking for it in %s", job_id, region)
        return _settled(jobs, region, job_id, holder)


def _settled(jobs: Jobs, region: str, job_id: str, holder: Holder) -> Seen | None:
    waited = 0.0
    while True:
        made = effective(find_all(jobs, [region], job_id), holder)
        if made is not None or waited >= SETTLE_S:
            return made
        jobs.access.sleep(LOOK_EVERY_S)
        waited += LOOK_EVERY_S
