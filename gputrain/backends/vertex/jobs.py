"""The calls to Vertex AI's job service, over REST or gRPC: values in, values out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, TypeVar

import attrs

from gputrain.backends.vertex.settings import Transport
from gputrain.backends.vertex.states import LABEL_REGION, SeenJob
from gputrain.errors import GputrainError
from gputrain.gcp import (
    LABEL_GANG,
    LABEL_HOME,
    LABEL_JOB,
    Access,
    Api,
    Listing,
    Page,
    UnclearError,
    read_all,
)
from gputrain.gcp.forms import value_of
from gputrain.gcp.shared import Kept
from gputrain.retry import CREATE, LOOK, Policy
from gputrain.threads import new_lock

T = TypeVar("T")
PAGE_SIZE = 100
LOOKED_AT = (
    "name,labels,state,createTime,startTime,endTime,error,webAccessUris,"
    "jobSpec.scheduling,jobSpec.tensorboard"
)
"""What a list reads of each job: not its container's command, which is most of it."""

CHANGES = "name,state,startTime,endTime,error,webAccessUris"
"""What of a job changes while it is watched; to read the rest again and again costs most of a look."""


@attrs.frozen
class SentCreates:
    """The creates of this process under one nonce, each of which makes another job."""

    unanswered: int = 0
    """Those of which nobody knows whether a job was made."""
    made: int = 0

    @property
    def most(self) -> int:
        """How many jobs may be there by them."""
        return self.unanswered + self.made


@attrs.define(kw_only=True, eq=False)
class JobService:
    """The job service of one project."""

    access: Access
    transport: Transport
    _sends: Kept[str, SentCreates] = attrs.field(init=False, factory=Kept)

    def sends(self, nonce: str) -> SentCreates:
        """What this process has sent under a nonce; of a refused create nothing comes."""
        return self._sends.get(nonce) or SentCreates()

    def create(self, region: str, body: Mapping[str, Any]) -> SeenJob:
        """Make a job: the one write. Tried again only where Vertex AI said that it did nothing.

        Raises:
            UnclearError: nobody knows whether the job was made.
            CapacityError, AccessError, RequestError: it was not.
        """
        job = value_of(_library().CustomJob, body, of="customJobs", library="google-cloud-aiplatform")
        nonce = body.get("labels", {}).get(LABEL_GANG, "")
        before = self.sends(nonce)
        self._sends.put(nonce, attrs.evolve(before, unanswered=before.unanswered + 1))  # Ctrl-C may come
        try:
            made = self._tried(
                region,
                lambda client, asked: _seen(
                    client.create_custom_job(parent=self._parent(region), custom_job=job, **asked)
                ),
                action=f"create the job in {region}",
                policy=CREATE,
            )
        except UnclearError:
            raise
        except GputrainError:
            self._sends.put(nonce, before)
            raise
        self._sends.put(nonce, attrs.evolve(before, made=before.made + 1))
        return made

    def get(self, resource: str) -> SeenJob:
        """Look at one job.

        Raises:
            MissingError: there is none of that name.
        """
        return self._tried(
            _region(resource),
            lambda client, asked: _seen(client.get_custom_job(name=resource, **asked)),
            action="look at the job",
        )

    def document(self, resource: str) -> dict[str, Any]:
        """The whole of one job as the REST API's JSON.

        Raises:
            MissingError: there is none of that name.
        """
        from google.protobuf.json_format import MessageToDict

        job = self._tried(
            _region(resource),
            lambda client, asked: client.get_custom_job(name=resource, **asked),
            action="read the job",
        )
        found: dict[str, Any] = MessageToDict(_library().CustomJob.pb(job))
        return found

    def list(self, region: str, wanted: str, fields: str = LOOKED_AT) -> Listing[SeenJob]:
        """These fields of every job of a region that a filter takes, newest first, read to the last page."""

        def page(token: str) -> Page[SeenJob]:
            request = {
                "parent": self._parent(region),
                "filter": wanted,
                "page_size": PAGE_SIZE,
                "page_token": token,
                "read_mask": {"paths": [_snake(path) for path in fields.split(",")]},
            }
            answer = self._tried(
                region,
                lambda client, asked: next(iter(client.list_custom_jobs(request, **asked).pages)),
                action=f"list the jobs in {region}",
            )
            return Page(items=tuple(map(_seen, answer.custom_jobs)), next_token=answer.next_page_token)

        return read_all(page)

    def cancel(self, resource: str) -> None:
        """Ask a job to end; best effort, and safe to repeat.

        Raises:
            RequestError: it cannot be cancelled, because it has ended.
        """
        self._tried(
            _region(resource),
            lambda client, asked: client.cancel_custom_job(name=resource, **asked),
            action="cancel the job",
        )

    def _parent(self, region: str) -> str:
        return f"projects/{self.access.project}/locations/{region}"

    def _tried(
        self, region: str, call: Callable[[Any, Mapping[str, Any]], T], *, action: str, policy: Policy = LOOK
    ) -> T:
        """What a method of the region's client answers; ``call`` passes on how the client is to ask."""
        client, asked = self._client(region), {"timeout": policy.call_s, "retry": None}
        return self.access.tried(lambda: call(client, asked), action=action, policy=policy, place=region)

    def _client(self, region: str) -> Any:
        is_rest = self.transport is Transport.REST
        address = self.access.url(Api.AIPLATFORM if is_rest else Api.AIPLATFORM_GRPC, region=region)
        return self.access.client(_library().JobServiceClient, address, transport=self.transport.value)


_LOADING = new_lock()


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


def _region(resource: str) -> str:
    return resource.split("/")[3]


def _seen(job: Any) -> SeenJob:
    raw = _library().CustomJob.pb(job)
    try:
        state = _library().JobState(raw.state).name
    except ValueError:  # a state of tomorrow's API, over gRPC; REST makes it UNSPECIFIED
        state = ""
    scheduling = raw.job_spec.scheduling
    return SeenJob(
        resource=raw.name,
        job_id=raw.labels.get(LABEL_JOB, ""),
        state=state,
        created_at=_moment(raw, "create_time"),
        started_at=_moment(raw, "start_time"),
        ended_at=_moment(raw, "end_time"),
        error_code=raw.error.code,
        error=raw.error.message,
        timeout=timedelta(seconds=scheduling.timeout.seconds) if scheduling.HasField("timeout") else None,
        may_restart=not scheduling.disable_retries,
        nonce=raw.labels.get(LABEL_GANG, ""),
        home=raw.labels.get(LABEL_HOME, ""),
        regions=_regions(raw.labels),
        tensorboard=raw.job_spec.tensorboard,
        terminals=tuple(sorted(raw.web_access_uris.items())),
    )


def _regions(labels: Mapping[str, str]) -> tuple[str, ...]:
    found = {
        name.removeprefix(LABEL_REGION): place
        for name, place in labels.items()
        if name.startswith(LABEL_REGION)
    }
    return tuple(found[number] for number in sorted(found, key=lambda one: (len(one), one)))


def _moment(raw: Any, field: str) -> datetime | None:
    if not raw.HasField(field):
        return None
    moment: datetime = getattr(raw, field).ToDatetime(tzinfo=timezone.utc)
    return moment


def _snake(path: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in path)
