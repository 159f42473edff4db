"""The names of everything a job has: its VMs, its objects in the bucket, its place. Pure.

Names are chosen before anything exists, so the address of node 0 is known when the first VM boots, and a VM
or an object says by its name whose it is.
"""

from __future__ import annotations

import hashlib

import attrs

from gputrain.backends.base import JobRef
from gputrain.errors import Fault, SpecError
from gputrain.staging.bucket import Bucket

NAME = "compute"
LABEL_ATTEMPT = "gputrain-attempt"
_LONGEST = 63
_APART = "~"


def vm_names(job_id: str, attempt: int, count: int) -> tuple[str, ...]:
    """The VMs of one attempt, by node rank; each attempt has names of its own.

    A name that is free again may still belong to a VM that is being deleted, so none is used twice.

    >>> vm_names("bert-x1y2", 0, 2)
    ('bert-x1y2-0-0', 'bert-x1y2-0-1')
    """
    ending = len(f"-{attempt}-{count - 1}")
    stem = job_id
    if len(job_id) + ending > _LONGEST:
        digest = hashlib.sha256(job_id.encode()).hexdigest()[:8]
        stem = f"{job_id[: _LONGEST - ending - len(digest) - 1].rstrip('-')}-{digest}"
    return tuple(f"{stem}-{attempt}-{rank}" for rank in range(count))


@attrs.frozen(kw_only=True)
class Place:
    """Where a job is: the zone of its VMs, and the bucket that outlives them.

    >>> Place.parse("us-central1-a~my-bucket/team").bucket.prefix
    'team/'
    """

    zone: str
    bucket: Bucket

    def __str__(self) -> str:
        home = self.bucket.uri("").removeprefix("gs://").rstrip("/")
        return f"{self.zone}{_APART}{home}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read the place of a `JobRef`.

        Raises:
            SpecError: it has not the form ``zone~bucket``.
        """
        zone, _, home = text.partition(_APART)
        if not zone or not home:
            fault = Fault(field="uri", value=repr(text), allowed="a place as zone~bucket", fix="copy job.uri")
            raise SpecError(f"{text!r} is no place of a Compute Engine job: {fault}", faults=(fault,))
        return cls(zone=zone, bucket=Bucket.parse(f"gs://{home}"))


@attrs.frozen(kw_only=True)
class Objects:
    """The objects of one job in its bucket."""

    bucket: Bucket
    job_id: str

    @property
    def record(self) -> str:
        """What was asked for, where it is, and which attempt it is at; listed to find jobs."""
        return self.bucket.object_name(NAME, f"{self.job_id}.json")

    @property
    def cancel(self) -> str:
        """There once somebody has cancelled the job."""
        return self.bucket.object_name("jobs", self.job_id, "cancel")

    @property
    def attempts(self) -> str:
        """How the names of all attempts' folders begin."""
        return self.bucket.object_name("jobs", self.job_id, "attempt-")

    def attempt(self, number: int) -> str:
        """The folder in which the VMs of one attempt write; ends in ``/``."""
        return f"{self.attempts}{number}/"

    def status(self, attempt: int, node_rank: int) -> str:
        """How far one node has come, and how it ended."""
        return f"{self.attempt(attempt)}status-{node_rank}.json"

    def log(self, attempt: int, node_rank: int) -> str:
        """All that the agent of one node wrote."""
        return f"{self.attempt(attempt)}node-{node_rank}.log"


def ref_of(project: str, place: Place, job_id: str) -> JobRef:
    """The name of a job."""
    return JobRef(backend=NAME, project=project, place=str(place), name=job_id)
