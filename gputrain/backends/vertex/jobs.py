"""The calls to Vertex AI's job service, over REST or gRPC: values in, values out."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, TypeVar

import attrs

from gputrain.backends.vertex.settings import Transport
from gputrain.backends.vertex.states import LABEL_REGION, Seen
from gputrain.gcp import LABEL_JOB, Access, Api, Listing, Page, UnclearError, read_all
from gputrain.retry import Policy, retried

T = TypeVar("T")
TIMEOUT_S = 60.0
PAGE_SIZE = 100
LOOKED_AT = "name,labels,state,createTime,startTime,endTime,error,jobSpec.scheduling"
"""What a list reads of each job: not its container's command, which is most of it."""

CHANGES = "name,state,startTime,endTime,error"
"""What of a job changes while it is watched; to read the rest again and again costs most of a look."""

LOOK = Policy(budget_s=20.0)
"""A look that fails for longer is the watcher's to repeat."""

QUEUE = Policy(budget_s=1800.0)
"""Creates wait for their turn: 60 a minute are allowed. Source: Vertex AI quotas page, read 2026-11-20."""


@attrs.frozen(kw_only=True)
class Jobs:
    """The job service of one project."""

    access: Access
    transport: Transport

    def create(self, region: str, body: Mapping[str, Any]) -> Seen:
        """Make a job: the one write. Tried again only where Vertex AI said that it did nothing.

        Raises:
            UnclearError: nobody knows whether the job was made.
            CapacityError, AccessError, RequestError: it was not.
        """

        def once() -> Seen:
            client = self._client(region)
            job = _library().CustomJob.from_json(json.dumps(dict(body)))
            with self.access.translated(f"create the job in {region}", place=region):
                return _seen(
                    client.create_custom_job(
                        parent=self._parent(region), custom_job=job, timeout=TIMEOUT_S, retry=None
                    )
                )

        return _unless_unclear(once, self.access.sleep)

    def get(self, resource: str) -> Seen:
        """Look at one job.

        Raises:
            MissingError: there is none of that name.
        """

        def once() -> Seen:
            client = self._client(resource.split("/")[3])
            with self.access.translated("look at the job"):
                return _seen(client.get_custom_job(name=resource, timeout=TIMEOUT_S, retry=None))

        return self._read(once)

    def document(self, resource: str) -> dict[str, Any]:
        """The whole of one job as the REST API's JSON.

        Raises:
            MissingError: there is none of that name.
        """

        def once() -> dict[str, Any]:
            from google.protobuf.json_format import MessageToDict

            client = self._client(resource.split("/")[3])
            with self.access.translated("read the job"):
                job = client.get_custom_job(name=resource, timeout=TIMEOUT_S, retry=None)
            found: dict[str, Any] = MessageToDict(_library().CustomJob.pb(job))
            return found

        return self._read(once)

    def list(self, region: str, wanted: str, fields: str = LOOKED_AT) -> Listing[Seen]:
        """These fields of every job of a region that a filter takes, newest first, read to the last page."""

        def page(token: str) -> Page[Seen]:
            request = {
                "parent": self._parent(region),
                "filter": wanted,
                "page_size": PAGE_SIZE,
                "page_token": token,
                "read_mask": {"paths": [_snake(path) for path in fields.split(",")]},
            }
            client = self._client(region)
            with self.access.translated(f"list the jobs in {region}"):
                pager = client.list_custom_jobs(request, timeout=TIMEOUT_S, retry=None)
                answer = next(iter(pager.pages))
            return Page(items=tuple(map(_seen, answer.custom_jobs)), next_token=answer.next_page_token)

        return read_all(lambda token: self._read(lambda: page(token)))

    def cancel(self, resource: str) -> None:
        """Ask a job to end; best effort, and safe to repeat.

        Raises:
            RequestError: it cannot be cancelled, because it has ended.
        """

        def once() -> None:
            client = self._client(resource.split("/")[3])
            with self.access.translated("cancel the job"):
                client.cancel_custom_job(name=resource, timeout=TIMEOUT_S, retry=None)

        self._read(once)

    def _parent(self, region: str) -> str:
        return f"projects/{self.access.project}/locations/{region}"

    def _read(self, call: Callable[[], T]) -> T:
        return retried(call, policy=LOOK, sleep=self.access.sleep)

    def _client(self, region: str) -> Any:
        make = self._rest if self.transport is Transport.REST else self._grpc
        address = self.access.url(
            Api.AIPLATFORM if self.transport is Transport.REST else Api.AIPLATFORM_GRPC, region=region
        )
        return self.access.once(f"jobs {self.transport.value} {address}", lambda: make(address))

    def _rest(self, address: str) -> Any:
        client = _library().JobServiceClient
        from google.api_core.client_options import ClientOptions

        return client(
            credentials=self.access.locked_credentials(),
            transport="rest",
            client_options=ClientOptions(api_endpoint=address),
        )

    def _grpc(self, address: str) -> Any:
        client = _library().JobServiceClient
        from google.api_core.client_options import ClientOptions
        from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcTransport

        if address.startswith(("127.", "localhost:", "[::1]:")):
            import grpc

            # Without TLS no token can be sent: only an address of this machine is spoken to like this.
            return client(transport=JobServiceGrpcTransport(channel=grpc.insecure_channel(address)))
        return client(
            credentials=self.access.locked_credentials(),
            transport="grpc",
            client_options=ClientOptions(api_endpoint=address),
        )


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


def _unless_unclear(call: Callable[[], Seen], sleep: Callable[[float], None]) -> Seen:
    """Try again what was refused for coming too fast; never what may have been done."""
    unclear: list[UnclearError] = []

    def once() -> Seen | None:
        try:
            return call()
        except UnclearError as error:
            unclear.append(error)
            return None

    made = retried(once, policy=QUEUE, sleep=sleep)
    if made is None:
        raise unclear[-1]
    return made


def _seen(job: Any) -> Seen:
    raw = _library().CustomJob.pb(job)
    try:
        state = _library().JobState(raw.state).name
    except ValueError:  # a state of tomorrow's API, over gRPC; REST makes it UNSPECIFIED
        state = ""
    scheduling = raw.job_spec.scheduling
    return Seen(
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
        regions=_regions(raw.labels),
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
