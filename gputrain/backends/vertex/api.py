"""The calls to Vertex AI's job service, values in, values out.

Google's own client makes jobs; all else is REST, which reads of a job only what is looked at
(docs/design/decisions/0012-the-official-client-writes-rest-lists.md).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import attrs

from gputrain.backends.vertex.states import SeenJob
from gputrain.google import LABEL_ATTEMPT, LABEL_JOB, Api, GoogleClient, Listing
from gputrain.google.forms import Json, mapping, value_of
from gputrain.retry import CREATE, LOOK
from gputrain.times import moment_of

PAGE_SIZE = 100
READ = (
    "name,labels,state,createTime,startTime,endTime,error,webAccessUris,jobSpec.scheduling,"
    "jobSpec.tensorboard"
)
"""What a list reads of each job: not its container's command, which is most of it."""


@attrs.frozen(kw_only=True)
class JobService:
    """The job service of one project."""

    access: GoogleClient

    def create(self, region: str, body: Mapping[str, Any]) -> str:
        """Make a job; its resource name. Repeated only where Vertex AI said that it did nothing.

        Raises:
            UnclearError: whether the job was made is unknown.
            CapacityError, AccessError, RequestError: it was not.
        """
        job = value_of(_library().CustomJob, body, of="customJobs", library="google-cloud-aiplatform")
        address = self.access.url(Api.AIPLATFORM, region=region)
        client = self.access.client(_library().JobServiceClient, address)
        parent = f"projects/{self.access.project}/locations/{region}"

        def create() -> str:
            made = client.create_custom_job(parent=parent, custom_job=job, timeout=CREATE.call_s, retry=None)
            return str(made.name)

        action = f"create the job in {region}"
        return self.access.tried(create, action=action, policy=CREATE, place=region)

    def get(self, resource: str) -> SeenJob:
        """Look at one job.

        Raises:
            MissingError: there is none of that name.
        """
        return _seen(self.access.get(self._url(resource), action="look at the job", policy=LOOK))

    def list(self, region: str, wanted: str) -> Listing[SeenJob]:
        """Every job of a region that a filter takes, newest first, read to the last page."""
        found = self.access.list_all(
            self._url(f"projects/{self.access.project}/locations/{region}/customJobs"),
            action=f"list the jobs in {region}", items="customJobs", policy=LOOK,
            params={"filter": wanted, "pageSize": str(PAGE_SIZE), "readMask": READ},
        )  # fmt: skip
        return Listing(tuple(map(_seen, found.items)), found.missing)

    def cancel(self, resource: str) -> None:
        """Ask a job to end; best effort, and safe to repeat.

        Raises:
            RequestError: it cannot be cancelled, because it has ended.
        """
        self.access.post(f"{self._url(resource)}:cancel", action="cancel the job", policy=LOOK, json={})

    def _url(self, resource: str) -> str:
        return f"{self.access.url(Api.AIPLATFORM, region=resource.split('/')[3])}/v1/{resource}"


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
        error_code=int(error.get("code") or 0),
        error=str(error.get("message", "")),
        timeout=timedelta(seconds=float(timeout)) if timeout else None,
        attempt=str(labels.get(LABEL_ATTEMPT, "")),
        tensorboard=str(spec.get("tensorboard", "")),
        terminals=tuple(sorted(mapping(job.get("webAccessUris")).items())),
    )
