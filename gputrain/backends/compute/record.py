"""What outlives a job's VMs: one object in its bucket that says what was asked, where it is, and how far.

It is written before the first VM is asked for, and changed only by whoever read it last, by its generation:
of two processes that submit or restart the same job, one goes first.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import attrs

from gputrain.backends.base import JobRef
from gputrain.backends.compute.names import NAME, Objects, Place, ref_of, vm_names
from gputrain.errors import JobLostError
from gputrain.gcp import Access, Api, MissingError, PreconditionError
from gputrain.retry import WRITE, retried
from gputrain.staging.bucket import Bucket, find_object

_BOUNDARY = "gputrain-record"


@attrs.frozen(kw_only=True)
class Record:
    """A job as it was last written down."""

    job_id: str
    order: Mapping[str, Any]
    """What `render.body` made, with the code's generation and the image's own name."""
    attempt: int = 0
    used_s: int = 0
    """Seconds that earlier attempts have run."""
    used_usd: float = 0.0
    """What they have cost, at the dated prices."""
    asked_at: float = 0.0
    """When this attempt's VMs were asked for, in seconds since 1970."""
    ids: Mapping[str, str] = attrs.field(factory=dict)
    """Google's number of each VM of this attempt, by name; empty until they have come."""
    generation: int = 0
    """Of the object; 0: not written yet."""

    @property
    def zone(self) -> str:
        """Where its VMs are."""
        return str(self.order["zone"])

    @property
    def names(self) -> tuple[str, ...]:
        """The VMs of the present attempt."""
        return vm_names(self.job_id, self.attempt, int(self.order["count"]))

    @property
    def restarts_left(self) -> int:
        """How often it may start again."""
        return max(0, int(self.order["max_restarts"]) - self.attempt)

    @property
    def left_s(self) -> int:
        """What is left of the time limit, and of the money at the price of the present zone."""
        left = int(self.order["max_run_s"]) - self.used_s
        price, most = self.order["price_usd_h"], self.order["max_cost"]
        if most is not None and price:
            left = min(left, int((most - self.used_usd) / price * 3600))
        return max(0, left)

    def spent(self, seconds: int) -> Record:
        """The record after an attempt that ran so long."""
        usd = seconds / 3600 * (self.order["price_usd_h"] or 0.0)
        return attrs.evolve(self, used_s=self.used_s + seconds, used_usd=self.used_usd + usd)


@attrs.frozen(kw_only=True)
class Records:
    """The records of one bucket."""

    access: Access
    bucket: Bucket

    def objects(self, job_id: str) -> Objects:
        """The names of a job's objects."""
        return Objects(bucket=self.bucket, job_id=job_id)

    def read(self, job_id: str) -> Record | None:
        """The record as it is now; None where there is none."""
        url = f"{self._object_url}/{quote(self.objects(job_id).record, safe='')}"
        action = f"read the record of {job_id}"
        try:
            response = retried(
                lambda: self.access.rest("GET", url, action=action, params={"alt": "media"}),
                sleep=self.access.sleep,
            )
        except MissingError:
            return None
        fields = json.loads(response.content)
        return Record(job_id=job_id, generation=int(response.headers["x-goog-generation"]), **fields)

    def known(self, ref: JobRef) -> Record:
        """The record of a job that must be there.

        Raises:
            JobLostError: there is none.
        """
        found = self.read(ref.name)
        if found is None:
            raise JobLostError(
                f"there is no job {ref.name}",
                why=f"gs://{self.bucket.name} holds no record of it",
                fix="check the name and the bucket; list the jobs there are with trainer.jobs()",
                uri=ref.uri,
            )
        return found

    def has_begun(self, record: Record) -> bool:
        """Whether VMs of this attempt have booted, be they gone again: the first of them takes a lock."""
        name = f"{self.objects(record.job_id).attempt(record.attempt)}lock"
        return find_object(self.access, self.bucket, name) is not None

    def write(self, record: Record) -> Record:
        """Write the record over the one that was read, or anew where none was.

        Raises:
            PreconditionError: somebody else has written it since.
        """
        fields = attrs.asdict(record, filter=lambda field, _: field.name not in ("job_id", "generation"))
        body = json.dumps(fields, sort_keys=True).encode()
        head = json.dumps(
            {"name": self.objects(record.job_id).record, "metadata": {"zone": record.zone}}
        ).encode()
        data = _multipart(head, body)
        params = {"uploadType": "multipart", "ifGenerationMatch": str(record.generation)}
        headers = {"Content-Type": f"multipart/related; boundary={_BOUNDARY}"}
        url = f"{self.access.url(Api.STORAGE)}/upload/storage/v1/b/{self.bucket.name}/o"
        action = f"write the record of {record.job_id}"

        def once() -> Record:
            answer = self.access.rest_json(
                "POST", url, action=action, params=params, data=data, headers=headers
            )
            return attrs.evolve(record, generation=int(answer["generation"]))

        try:
            return retried(once, policy=WRITE, sleep=self.access.sleep)
        except PreconditionError:
            there = self.read(record.job_id)  # a try whose answer was lost may have written it
            if there is not None and there == attrs.evolve(record, generation=there.generation):
                return there
            raise

    def remove(self, record: Record) -> None:
        """Remove the record of a job that never came to be, unless somebody else has written it since."""
        url = f"{self._object_url}/{quote(self.objects(record.job_id).record, safe='')}"
        action = f"remove the record of {record.job_id}"
        params = {"ifGenerationMatch": str(record.generation)}
        with contextlib.suppress(MissingError, PreconditionError):
            retried(
                lambda: self.access.rest("DELETE", url, action=action, params=params),
                policy=WRITE,
                sleep=self.access.sleep,
            )

    def find(self, project: str, name: str) -> tuple[JobRef, ...]:
        """Jobs whose name starts with ``name``, newest first."""
        prefix = self.bucket.object_name(NAME, name)
        found: list[tuple[str, JobRef]] = []
        for item in self._list(prefix):
            job_id = item["name"].rpartition("/")[2].removesuffix(".json")
            place = Place(zone=item.get("metadata", {}).get("zone", "unknown"), bucket=self.bucket)
            found.append((item["timeCreated"], ref_of(project, place, job_id)))
        return tuple(ref for _, ref in sorted(found, key=lambda pair: pair[0], reverse=True))

    def _list(self, prefix: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            params = {"prefix": prefix, "fields": "items(name,timeCreated,metadata),nextPageToken"}
            params |= {"pageToken": token} if token else {}
            body = retried(
                lambda sent=params: self.access.rest_json(  # type: ignore[misc]
                    "GET", self._object_url, action="list the records of jobs", params=sent
                ),
                sleep=self.access.sleep,
            )
            items += body.get("items", ())
            token = body.get("nextPageToken", "")
            if not token:
                return items

    @property
    def _object_url(self) -> str:
        return f"{self.access.url(Api.STORAGE)}/storage/v1/b/{self.bucket.name}/o"


def _multipart(head: bytes, body: bytes) -> bytes:
    line = f"--{_BOUNDARY}".encode()
    kind = b"Content-Type: application/json\r\n\r\n"
    return b"\r\n".join([line, kind + head, line, kind + body, line + b"--", b""])
