"""The names of everything a job has: its VMs, its objects in the bucket, its place. Pure.

Names are chosen before anything exists, so the address of node 0 is known when the first VM boots, and a VM
or an object says by its name whose it is.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from typing import Any

import attrs

from gputrain.backends.base import JobRef, Request
from gputrain.backends.google import addressed
from gputrain.fields import refused
from gputrain.gcp import LABEL_GANG, LABEL_JOB, label_value
from gputrain.gcp.buckets import BucketPrefix
from gputrain.records import Record

NAME = "compute"
LABEL_ATTEMPT = "gputrain-attempt"

_LONGEST = 63
_LONGEST_BASE = 58
"""Letters of a group's ``baseInstanceName``. Source: compute v1 reference, read 2026-11-22."""
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


def queue_name(job_id: str, nonce: str) -> str:
    """What a gang bears in Google's queue: its template, its group and its request, of one ask alone.

    >>> queue_name("bert-x1y2", "00000000cafe")
    'bert-x1y2-00000000cafe'
    """
    return f"{job_id[: _LONGEST_BASE - len(nonce) - 1].rstrip('-')}-{nonce}"


def note_of(**told: str) -> str:
    """A description that says whose a thing is which takes no labels.

    >>> note_of(job="bert", home="0a1b", zone="us-central1-a")
    'gputrain job=bert home=0a1b zone=us-central1-a'
    """
    return " ".join(["gputrain", *(f"{key}={value}" for key, value in told.items())])


def read_note(text: object) -> dict[str, str]:
    """The same, read; empty for anything else.

    >>> read_note("gputrain job=bert zone=us-central1-a")["zone"]
    'us-central1-a'
    """
    first, *words = str(text).split(" ")
    pairs = [word.partition("=") for word in words] if first == "gputrain" else []
    return {key: value for key, _, value in pairs if value}


@attrs.frozen(kw_only=True)
class VmNames:
    """The VMs of one ask, as they were known before they were asked for."""

    job_id: str
    attempt: int
    zone: str
    names: tuple[str, ...]
    """By node rank."""
    nonce: str
    most: int
    """How many VMs the largest gang of the job had, this one or an earlier one."""
    queue: str = ""
    """What it bears in Google's flex-start queue; empty where it is made at once."""

    @classmethod
    def of(cls, record: Record) -> VmNames:
        """That of a record's latest ask for VMs. Raises RecordError as `addressed`."""
        asks = (one for one in reversed(record.asks) if one.way.backend == NAME)
        last = addressed(next(asks, record.latest))
        is_queued = last.way.model == "flex-start" and len(last.names) > 1
        return cls(
            job_id=record.job_id,
            attempt=last.attempt,
            zone=last.way.place,
            names=last.names,
            nonce=last.nonce,
            most=max(len(ask.names) for ask in record.asks),
            queue=queue_name(record.job_id, last.nonce) if is_queued else "",
        )

    @classmethod
    def to_end(cls, record: Record) -> tuple[VmNames, ...]:
        """Those that a cancel has to end: of the latest ask for VMs, and of all whose VMs may come yet."""
        asks = [number for number, one in enumerate(record.asks) if one.way.backend == NAME]
        late = (number for number in asks if record.asks[number].is_unseen)
        wanted = dict.fromkeys((*asks[-1:], *late))
        return tuple(cls.of(attrs.evolve(record, asks=record.asks[: number + 1])) for number in wanted)

    @classmethod
    def to_be(cls, request: Request) -> VmNames:
        """The one that a completed request would make."""
        template, resource = request.body.get("template", {}), request.body["resource"]
        labels = template.get("properties", resource.get("instanceProperties", resource))["labels"]
        return cls(
            job_id=request.ref.name, attempt=int(labels[LABEL_ATTEMPT]), zone=request.body["zone"],
            names=request.names, nonce=labels[LABEL_GANG], most=len(request.names),
            queue=template.get("name", ""),
        )  # fmt: skip

    def ssh_command(self, project: str, node_rank: int) -> str:
        """The command with which a person gets to a VM, through Identity-Aware Proxy."""
        words = ["gcloud", "compute", "ssh", self.names[node_rank], "--project", project]
        return shlex.join([*words, "--zone", self.zone, "--tunnel-through-iap"])

    def owns(self, vm: Mapping[str, Any]) -> bool:
        """Whether a VM was made for this ask: by its name, its job and the nonce, all three."""
        is_asked = (vm.get("labels") or {}).get(LABEL_GANG) == self.nonce
        return is_asked and vm.get("name") in self.names and self.is_of_its_job(vm)

    def is_of_its_job(self, vm: Mapping[str, Any]) -> bool:
        """Whether a VM bears the label of the job, whichever ask it was made for."""
        return bool((vm.get("labels") or {}).get(LABEL_JOB) == label_value(self.job_id))

    def is_anothers(self, vm: Mapping[str, Any]) -> bool:
        """Whether a VM has the name only. A label that somebody has taken away says nothing."""
        return bool((vm.get("labels") or {}).get(LABEL_GANG, self.nonce) != self.nonce)


@attrs.frozen(kw_only=True)
class JobPlace:
    """Where a job is: the zone of its VMs, and the bucket that outlives them.

    >>> JobPlace.parse("us-central1-a~my-bucket/team").bucket.prefix
    'team/'
    """

    zone: str
    bucket: BucketPrefix

    def __str__(self) -> str:
        home = self.bucket.uri("").removeprefix("gs://").rstrip("/")
        return f"{self.zone}{_APART}{home}"

    @classmethod
    def parse(cls, text: str) -> JobPlace:
        """Read the place of a `JobRef`.

        Raises:
            SpecError: it has not the form ``zone~bucket``.
        """
        zone, _, home = text.partition(_APART)
        if not zone or not home:
            what = f"{text!r} is no place of a Compute Engine job"
            raise refused("uri", text, "a place as zone~bucket", "copy job.uri", what=what)
        return cls(zone=zone, bucket=BucketPrefix.parse(f"gs://{home}"))


@attrs.frozen(kw_only=True)
class JobObjects:
    """The objects of one job in its bucket."""

    bucket: BucketPrefix
    job_id: str

    @property
    def cancel(self) -> str:
        """There once somebody has cancelled the job."""
        return self.bucket.object_name("jobs", self.job_id, "cancel")

    @property
    def attempts(self) -> str:
        """How the names of all attempts' folders begin."""
        return self.bucket.object_name("jobs", self.job_id, "attempt-")

    def place(self, name: str) -> str:
        """Where a folder of the job is kept, unless somewhere else was said."""
        return self.bucket.uri("jobs", self.job_id, name)

    def attempt(self, number: int) -> str:
        """The folder in which the VMs of one attempt write; ends in ``/``."""
        return f"{self.attempts}{number}/"

    def status(self, attempt: int, node_rank: int) -> str:
        """How far one node has come, and how it ended."""
        return f"{self.attempt(attempt)}status-{node_rank}.json"

    def log(self, attempt: int, node_rank: int) -> str:
        """All that the agent of one node wrote."""
        return f"{self.attempt(attempt)}node-{node_rank}.log"


def ref_of(project: str, place: JobPlace, job_id: str) -> JobRef:
    """The name of a job."""
    return JobRef(backend=NAME, project=project, place=str(place), name=job_id)
