"""Exactly one job for one id, on a service that knows no request ids.

::

    record, written before  ->  create  ->  a clear answer: done
                                        ->  a lost answer:  look until the settle window is over, then again

The record keeps two processes apart. Should two jobs be made all the same, the containers decide: node 0 of
each tries to create one lock object, and the job that comes second does nothing and ends.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.states import SeenJob, is_capacity, state_of
from gputrain.errors import GputrainError, RequestError, TransientError
from gputrain.gcp import LABEL_JOB, MissingError, UnclearError, filter_text, label_value
from gputrain.lifecycle import State
from gputrain.times import Since

log = logging.getLogger("gputrain")

SETTLE_S = 60.0
"""How long a job that was made although its answer was lost may be missing in lists. Google promises none."""

LOOK_EVERY_S = 5.0
TRIES = 2
ENDS_S = 300.0
"""How long a job that was asked to stop may take: its ranks save, and Vertex AI is in no hurry."""

Holder = Callable[[SeenJob], str]
"""The number of the job that holds the lock of a job's id; empty where none does."""

Latest = Callable[[SeenJob], str]
"""The nonce of what was asked for last under a job's id; empty where nobody can tell."""

_LONG_AGO = datetime.min.replace(tzinfo=timezone.utc)


def label_filter(job_id: str) -> str:
    """The list filter that takes the jobs of one id."""
    return f"labels.{LABEL_JOB}={filter_text(label_value(job_id))}"


def find_all(jobs: JobService, regions: Sequence[str], job_id: str) -> tuple[SeenJob, ...]:
    """Every job of that id, in any of the regions."""
    lists = (jobs.list(region, label_filter(job_id)) for region in regions)
    return tuple(seen for listing in lists for seen in listing.whole(f"find {job_id}"))


def found_no_room(seen: SeenJob) -> bool:
    """Whether a job ended because its region had no machines: another place may have some."""
    return seen.has_ended and seen.started_at is None and is_capacity(seen.error)


def effective(found: Sequence[SeenJob], holder: Holder, latest: Latest) -> SeenJob | None:
    """The one job that counts: the lock's holder; where none holds it, the oldest that was not cancelled.

    One that has ended then counts only if it is what was asked for last, or nothing else is there: the others
    ended because they had not the lock, or were taken back. One that found no machines does not count. None
    where there is none.
    """
    counting = [seen for seen in found if not found_no_room(seen)]
    if len(counting) > 1:
        number = holder(counting[0])
        counting = [seen for seen in counting if seen.number == number] or counting
    asked = latest(counting[0]) if len(counting) > 1 and any(seen.has_ended for seen in counting) else ""

    def rank(seen: SeenJob) -> tuple[bool, bool, datetime, str]:
        has_gone = seen.has_ended and seen.nonce != asked
        return has_gone, seen.was_cancelled, seen.created_at or _LONG_AGO, seen.number

    return min(counting, key=rank, default=None)


def extras(found: Sequence[SeenJob], kept: SeenJob) -> tuple[SeenJob, ...]:
    """The jobs of the same id that go on beside the one that counts."""
    return tuple(seen for seen in found if seen.number != kept.number and not seen.has_ended)


def cancel_extras(jobs: JobService, found: Sequence[SeenJob], kept: SeenJob, holder: Holder) -> None:
    """End the jobs of the same id that do nothing, once the lock says which one does."""
    if holder(kept) != kept.number:
        return
    for seen in extras(found, kept):
        log.warning("job %s of %s does nothing beside %s: cancelled", seen.number, kept.job_id, kept.number)
        try:
            jobs.cancel(seen.resource)
        except (RequestError, TransientError) as error:  # it ended by itself, or the next look cancels it
            log.info("could not cancel %s: %s", seen.resource, error)


def create_once(jobs: JobService, region: str, body: Mapping[str, Any], job_id: str, nonce: str) -> SeenJob:
    """Create the job, or take up the one that a lost answer has made: it bears the nonce of this ask.

    Where something may have come of this ask before, that is looked for first.

    Raises:
        UnclearError: the last try was not answered either.
        CapacityError, AccessError, RequestError: as Vertex AI answers.
    """
    if jobs.sends(nonce).most and (made := _settled(jobs, region, job_id, nonce)) is not None:
        return made
    for _ in range(TRIES):
        try:
            return jobs.create(region, body)
        except UnclearError:  # noqa: PERF203  # three tries at most
            log.info("the answer for %s was lost; looking for it in %s", job_id, region)
            made = _settled(jobs, region, job_id, nonce)
            if made is not None:
                return made
    try:
        return jobs.create(region, body)
    except UnclearError as error:
        again = "submit again with the same key, which takes up what may have been made"
        error.fix = f"{again}; or look for {job_id} in trainer.jobs()"
        raise


def end(jobs: JobService, seen: SeenJob) -> None:
    """Ask a job to stop; one that has ended meanwhile, or is gone, is no error."""
    try:
        jobs.cancel(seen.resource)
    except MissingError:
        return
    except RequestError:
        with contextlib.suppress(MissingError):
            found = jobs.get(seen.resource)
            if not found.has_ended and state_of(found) is not State.STOPPING:  # else it ends without this one
                raise


def await_end(jobs: JobService, seen: SeenJob) -> None:
    """Wait for the end of a job that was asked to stop. UnclearError where it does not come."""
    since = Since(jobs.access.now)
    with contextlib.suppress(MissingError):  # deleted, as only a job that has ended can be
        while not jobs.get(seen.resource).has_ended:
            if since.seconds > ENDS_S:
                raise UnclearError(
                    f"{seen.job_id} was asked to stop in {seen.region}, and goes on",
                    fix="wait a moment, and submit it again with the same key",
                )
            jobs.access.sleep(LOOK_EVERY_S)


def of_ask(jobs: JobService, region: str, job_id: str, nonce: str) -> tuple[SeenJob, ...]:
    """The jobs that an ask has made, as far as lists show them: more than one where answers were lost."""
    return tuple(seen for seen in find_all(jobs, [region], job_id) if seen.nonce == nonce)


def _settled(jobs: JobService, region: str, job_id: str, nonce: str) -> SeenJob | None:
    waited = 0.0
    while True:
        try:
            made = next(iter(of_ask(jobs, region, job_id, nonce)), None)
        except TransientError:
            raise
        except GputrainError as error:  # of the look: no answer to what was asked
            raise UnclearError(
                f"nobody can tell whether {job_id} was made in {region}",
                why=f"{error.what}: {error.why}",
                fix=f"{error.fix or 'wait a moment'}; then submit again with the same key",
            ) from error
        if made is not None or waited >= SETTLE_S:
            return made
        jobs.access.sleep(LOOK_EVERY_S)
        waited += LOOK_EVERY_S
