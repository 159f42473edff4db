"""Makes custom jobs for attempts, and ends them. Each bears the id of its attempt as a label.

Vertex AI has no request ids. A create whose answer was lost is looked for once; what a list does not show yet
comes later, finds in the job's record whether it is still wanted, and by the attempt's claim whether it is
the only one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from gputrain.backends.base import Machine, Request, remove_each
from gputrain.backends.vertex.api import JobService
from gputrain.backends.vertex.offers import NAME
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.backends.vertex.states import ENDED, SeenJob, state_of
from gputrain.catalog import Service
from gputrain.errors import GputrainError, RequestError, TransientError
from gputrain.google import LABEL_ATTEMPT, LABEL_OWNER, Listing, MissingError, UnclearError, filter_text
from gputrain.google.cache import Recent
from gputrain.jobstore import Attempt, JobRecord, Launch, RecordError
from gputrain.lifecycle import State

GONE_WITHIN_S = 60.0
"""How long the end of jobs that were cancelled is waited for. One that takes longer does not train: its
record says so."""
LOOK_EVERY_S = 2.0

_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
_HANDLE = re.compile(rf"projects/[^/]+/locations/({_REGION.pattern})/customJobs/(\d{{1,30}})")


def launch(jobs: JobService, request: Request, unanswered: Recent[str, bool]) -> str:
    """Make the job, or find it where an answer was lost; its resource name.

    Args:
        request: with the attempt's id among the labels.
        unanswered: attempts whose creates got no answer here: they are looked for before they are made again.

    Raises:
        UnclearError: no answer came, and no list shows a job of the attempt.
        CapacityError, AccessError, RequestError: as Vertex AI answers.
    """
    body, region = request.body["customJob"], request.candidate.place
    attempt_id = body["labels"][LABEL_ATTEMPT]
    if unanswered.get(attempt_id):
        if found := _by_label(jobs, region, attempt_id):
            return found[0].resource
        if not request.is_fenced:
            raise UnclearError("no list shows the job of an image as it is yet: a second one would train too")
    try:
        return jobs.create(region, body)
    except UnclearError:
        unanswered.put(attempt_id, True)
        with contextlib.suppress(GputrainError):  # of the look: no answer to what was asked
            if found := _by_label(jobs, region, attempt_id):
                return found[0].resource
        raise


def region_of(attempt: Attempt) -> str:
    """Where an attempt was asked for. RecordError where a record names what is no region."""
    region = attempt.option.place
    if not _REGION.fullmatch(region):  # it becomes part of a host's name, to which our token goes
        raise RecordError(f"{region[:40]!r} is no region", fix="find out who can write to the bucket")
    return region


def resource_of(jobs: JobService, attempt: Attempt) -> str:
    """The job that the record names, in this client's own project; empty where it names none yet."""
    found = _HANDLE.fullmatch(attempt.handle)
    if attempt.handle and (found is None or found[1] != region_of(attempt)):
        raise RecordError(
            f"{attempt.handle[:60]!r} is no custom job in {region_of(attempt)}",
            fix="find out who can write to the bucket",
        )
    return named(jobs, region_of(attempt), found[2]) if found else ""


def named(jobs: JobService, region: str, number: str) -> str:
    """The resource name of a job of this project."""
    return f"projects/{jobs.access.project}/locations/{region}/customJobs/{number}"


def find(jobs: JobService, attempt: Attempt) -> tuple[SeenJob, ...]:
    """All jobs of an attempt that can be seen: by its label, and by its handle, as lists lag."""
    found = _by_label(jobs, region_of(attempt), attempt.id)
    resource = resource_of(jobs, attempt)
    if resource and not any(one.number == resource.rpartition("/")[2] for one in found):
        found += get(jobs, resource, attempt)
    return found


def get(jobs: JobService, resource: str, attempt: Attempt) -> tuple[SeenJob, ...]:
    """The job of that name, if it is there and was made for the attempt."""
    with contextlib.suppress(MissingError):
        seen = jobs.get(resource)
        return (seen,) if seen.attempt == attempt.id else ()
    return ()


def _by_label(jobs: JobService, region: str, attempt_id: str) -> tuple[SeenJob, ...]:
    wanted = f"labels.{LABEL_ATTEMPT}={filter_text(attempt_id)}"
    return jobs.list(region, wanted).require_complete("find the jobs of an attempt")


def terminate(jobs: JobService, record: JobRecord, grace_s: float) -> None:
    """Cancel every job of the record's attempt that has not ended; without a grace, wait until they have.

    Those of an attempt whose launch was interrupted are not waited for: its record lets none of them train.

    Raises:
        AccessError, RequestError: Vertex AI refuses.
        TransientError: one has not ended in time.
    """
    assert record.attempt is not None, "it has an attempt"
    living = [one for one in find(jobs, record.attempt) if not one.has_ended]
    for one in living:
        _cancel(jobs, one)
    if grace_s > 0 or record.attempt.state is Launch.LAUNCHING:
        return
    waited_s = 0.0
    while living := [one for one in living if _is_alive(jobs, one)]:
        if waited_s >= GONE_WITHIN_S:
            raise TransientError(
                f"{living[0].resource} was asked to stop, and has not ended yet",
                fix="nothing: it does not train any more; see the job in the console if it stays",
            )
        jobs.access.sleep(LOOK_EVERY_S)
        waited_s += LOOK_EVERY_S


def _is_alive(jobs: JobService, seen: SeenJob) -> bool:
    with contextlib.suppress(MissingError):
        return not jobs.get(seen.resource).has_ended
    return False


def _cancel(jobs: JobService, seen: SeenJob) -> None:
    """Ask a job to stop; one that has ended meanwhile, or is gone, is no error."""
    try:
        jobs.cancel(seen.resource)
    except MissingError:
        return
    except RequestError:
        with contextlib.suppress(MissingError):
            found = jobs.get(seen.resource)
            if not found.has_ended and state_of(found) is not State.STOPPING:
                raise


def living_filter(settings: VertexSettings) -> str:
    """The list filter that takes the jobs of these settings' records that have not ended."""
    states = " AND ".join(f'state!="{name}"' for name in sorted(ENDED))
    return f"labels.{LABEL_OWNER}={filter_text(settings.home_label)} AND {states}"


def machines(jobs: JobService, settings: VertexSettings, job_id: str) -> tuple[Machine, ...]:
    """The jobs of these settings' records that have not ended, in all their regions.

    Raises:
        PartialListError: some could not be listed.
    """
    found: list[Machine] = []
    missing: list[str] = []
    for region in settings.all_regions(Service.VERTEX) if settings.bucket else ():
        try:
            listing = jobs.list(region, living_filter(settings))
        except TransientError:
            listing = Listing((), (region,))
        missing += listing.missing
        found += [_machine(one) for one in listing.items if one.job_id.startswith(job_id)]
    return Listing(tuple(found), tuple(missing)).require_complete("list the jobs of Vertex AI")


def _machine(seen: SeenJob) -> Machine:
    return Machine(
        backend=NAME, name=seen.resource, place=seen.region, job_id=seen.job_id, attempt=seen.attempt,
        status=seen.state, price=None,
    )  # fmt: skip


def remove(jobs: JobService, found: Sequence[Machine]) -> None:
    """As of `Backend`: cancel these jobs."""
    remove_each(found, lambda one: _cancel(jobs, SeenJob(resource=one.name, job_id=one.job_id, state="")))
