"""The custom jobs of one project: made for attempts, found, ended. Each has its attempt's id as a label.

Google's own client makes jobs; all else is REST, which reads of a job only what is looked at
(docs/design/decisions/0012-the-official-client-writes-rest-lists.md).

Vertex AI has no request ids. What a create without an answer made is looked for before it is sent again; what
no list shows yet comes later, finds in the job's record whether it is still wanted, and by its attempt's
claim whether it is the only one.
"""

from __future__ import annotations

import contextlib
import gc
import re
import threading
from datetime import timedelta
from functools import cache
from typing import Any

import attrs

from gputrain.backends.base import Machine, Request
from gputrain.backends.vertex.offers import NAME
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.backends.vertex.states import ENDED, SeenJob, state_of
from gputrain.catalog import Service
from gputrain.errors import RequestError, TransientError
from gputrain.google import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    LABEL_OWNER,
    Api,
    GoogleClient,
    Listing,
    MissingError,
    UnclearError,
    filter_text,
)
from gputrain.google.cache import Recent
from gputrain.google.forms import Json, mapping, value_of
from gputrain.jobstore import Attempt, JobRecord, Launch, RecordError
from gputrain.lifecycle import State
from gputrain.retry import CREATE, LOOK
from gputrain.times import moment_of

PAGE_SIZE = 100
READ = (
    "name,labels,state,createTime,startTime,endTime,error,webAccessUris,jobSpec.scheduling,"
    "jobSpec.tensorboard"
)
"""What a list reads of each job: not its container's command, which is most of it."""
GONE_WITHIN_S = 60.0
"""How long the end of jobs that were cancelled is waited for. One that takes longer does not train: its
record says so."""
LOOK_EVERY_S = 2.0

_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
_HANDLE = re.compile(rf"projects/[^/]+/locations/({_REGION.pattern})/customJobs/(\d{{1,30}})")


@attrs.frozen(kw_only=True)
class JobService:
    """The job service of one project."""

    access: GoogleClient
    settings: VertexSettings
    _unanswered: Recent[str, bool] = attrs.field(factory=Recent, init=False)
    """Attempts whose creates got no answer here: they are looked for before they are made again."""

    def launch(self, request: Request) -> str:
        """Make the job, or find it where an answer to this process was lost; its resource name.

        Raises:
            UnclearError: no answer came, or no list shows what was made before.
            CapacityError, AccessError, RequestError: as Vertex AI answers.
        """
        region, attempt_id = request.candidate.place, request.attempt.id
        body, library = request.body["customJob"], _library()
        job = value_of(library.CustomJob, body, of="customJobs", library="google-cloud-aiplatform")
        client = self.access.client(library.JobServiceClient, self.access.url(Api.AIPLATFORM, region=region))
        asked = {"parent": request.body["parent"], "custom_job": job}

        def create() -> str:
            return str(client.create_custom_job(**asked, timeout=CREATE.call_s, retry=None).name)

        if self._unanswered.get(attempt_id):
            if found := self._by_label(region, attempt_id):
                return found[0].resource
            if not request.is_fenced:
                raise UnclearError("no list shows the job of an image as it is yet: another would train too")
        try:
            # Repeated only where Vertex AI said that it did nothing.
            action = f"create the job in {region}"
            return self.access.tried(create, action=action, policy=CREATE)
        except UnclearError:
            self._unanswered.put(attempt_id, True)
            raise

    def look(self, resource: str) -> SeenJob:
        """Look at one job. MissingError: there is none of that name."""
        return _seen(self.access.get(self._url(resource), action="look at the job", policy=LOOK))

    def list(self, region: str, wanted: str) -> Listing[SeenJob]:
        """Every job of a region that a filter takes, newest first, read to the last page."""
        found = self.access.list_all(
            self._url(f"projects/{self.access.project}/locations/{region}/customJobs"),
            action=f"list the jobs in {region}", items="customJobs", policy=LOOK,
            params={"filter": wanted, "pageSize": str(PAGE_SIZE), "readMask": READ},
        )  # fmt: skip
        return Listing(tuple(map(_seen, found.items)), found.missing)

    def living(self, region: str) -> Listing[SeenJob]:
        """The jobs of these settings' records that have not ended."""
        states = " AND ".join(f'state!="{name}"' for name in sorted(ENDED))
        owner = f"labels.{LABEL_OWNER}={filter_text(self.settings.home_label)}"
        return self.list(region, f"{owner} AND {states}")

    def _url(self, resource: str) -> str:
        return f"{self.access.url(Api.AIPLATFORM, region=resource.split('/')[3])}/v1/{resource}"

    def named(self, region: str, number: str) -> str:
        """The resource name of a job of this project."""
        return f"projects/{self.access.project}/locations/{region}/customJobs/{number}"

    def resource_of(self, attempt: Attempt) -> str:
        """The job that the record names, in this client's own project; empty where it names none yet."""
        found, region = _HANDLE.fullmatch(attempt.handle), region_of(attempt)
        if attempt.handle and (found is None or found[1] != region):
            what = f"{attempt.handle[:60]!r} is no custom job in {region}"
            raise RecordError(what, fix="find out who can write to the bucket")
        return self.named(region, found[2]) if found else ""

    def find(self, attempt: Attempt) -> tuple[SeenJob, ...]:
        """All jobs of an attempt that can be seen: by its label, and by its handle, as lists lag."""
        found, resource = self._by_label(region_of(attempt), attempt.id), self.resource_of(attempt)
        if resource and not any(one.number == resource.rpartition("/")[2] for one in found):
            found += self.get(resource, attempt)
        return found

    def get(self, resource: str, attempt: Attempt) -> tuple[SeenJob, ...]:
        """The job of that name, if it is there and was made for the attempt."""
        with contextlib.suppress(MissingError):
            seen = self.look(resource)
            return (seen,) if seen.attempt == attempt.id else ()
        return ()

    def _by_label(self, region: str, attempt_id: str) -> tuple[SeenJob, ...]:
        wanted = f"labels.{LABEL_ATTEMPT}={filter_text(attempt_id)}"
        return self.list(region, wanted).require_complete("find the jobs of an attempt")

    def terminate(self, record: JobRecord, grace_s: float) -> None:
        """Cancel every job of the attempt that has not ended; without a grace, wait until they have.

        Those of an attempt whose launch was interrupted are not waited for: its record lets none of them
        train.

        Raises:
            AccessError, RequestError: Vertex AI refuses.
            TransientError: one has not ended in time.
        """
        attempt = record.current
        living = [one.resource for one in self.find(attempt) if not one.has_ended]
        for one in living:
            self.cancel(one)
        if grace_s > 0 or attempt.state is Launch.LAUNCHING:
            return
        waited_s = 0.0
        while living := [one for one in living if not all(now.has_ended for now in self.get(one, attempt))]:
            if waited_s >= GONE_WITHIN_S:
                what = f"{living[0]} was asked to stop, and has not ended yet"
                fix = "nothing: it does not train any more; see the job in the console if it stays"
                raise TransientError(what, fix=fix)
            self.access.sleep(LOOK_EVERY_S)
            waited_s += LOOK_EVERY_S

    def remove(self, machine: Machine) -> None:
        """As of `Backend`."""
        self.cancel(machine.name)

    def cancel(self, resource: str) -> None:
        """Ask a job to stop; one that has ended meanwhile, or is gone, is no error."""
        with contextlib.suppress(MissingError):
            try:
                self.access.post(
                    f"{self._url(resource)}:cancel", action="cancel the job", policy=LOOK, json={}
                )
            except RequestError:
                found = self.look(resource)
                if not found.has_ended and state_of(found) is not State.STOPPING:
                    raise

    def machines(self, job_id: str) -> tuple[Machine, ...]:
        """As of `Backend`: the `living` in all regions. PartialListError: some could not be listed."""
        found, missing = list[Machine](), list[str]()
        for region in self.settings.all_regions(Service.VERTEX):
            try:
                listing = self.living(region)
            except TransientError:
                listing = Listing((), (region,))
            missing += listing.missing
            found += [
                Machine(
                    backend=NAME, name=one.resource, place=one.region, job_id=one.job_id,
                    attempt=one.attempt, status=one.state, price=None,
                )
                for one in listing.items
                if one.job_id.startswith(job_id)
            ]  # fmt: skip
        return Listing(tuple(found), tuple(missing)).require_complete("list the jobs of Vertex AI")


def region_of(attempt: Attempt) -> str:
    """The region of an attempt. RecordError where a record names what is no region."""
    region = attempt.option.place
    if not _REGION.fullmatch(region):  # it becomes part of a host's name, to which our token goes
        raise RecordError(f"{region[:40]!r} is no region", fix="find out who can write to the bucket")
    return region


_LOADING = threading.Lock()


@cache
def _library() -> Any:
    """Google's client library. Its imports go in circles: two threads at once would see half of it."""
    with _LOADING:
        collects = gc.isenabled()
        gc.disable()  # it would go through all that is being loaded, over and over: a quarter of the time
        try:
            import google.cloud.aiplatform_v1 as library
        finally:
            if collects:
                gc.enable()
    return library


def _seen(job: Json) -> SeenJob:
    spec, labels, error = mapping(job.get("jobSpec")), mapping(job.get("labels")), mapping(job.get("error"))
    timeout = str(mapping(spec.get("scheduling")).get("timeout", "")).removesuffix("s")
    return SeenJob(
        resource=str(job.get("name", "")),
        job_id=str(labels.get(LABEL_JOB, "")),
        state=str(job.get("state", "")),
        created_at=moment_of(job.get("createTime")),
        started_at=moment_of(job.get("startTime")),
        ended_at=moment_of(job.get("endTime")),
        error=str(error.get("message", "")),
        timeout=timedelta(seconds=float(timeout)) if timeout else None,
        attempt=str(labels.get(LABEL_ATTEMPT, "")),
        tensorboard=str(spec.get("tensorboard", "")),
        terminals=tuple(sorted(mapping(job.get("webAccessUris")).items())),
    )
