"""A name that a job wants and another VM bears: whose it is, and what may be done about it.

Nobody is told to delete what may be another's: two who share a project and a key, with buckets of their own,
want the same names, and the VM of the first is a living job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gputrain.backends.compute.calls import INSTANCE_FIELDS, Calls
from gputrain.backends.compute.names import VmNames
from gputrain.backends.compute.render import JOB_KEY
from gputrain.errors import RequestError
from gputrain.gcp import LABEL_HOME, LABEL_JOB, label_value
from gputrain.gcp.buckets import BucketPrefix, home_of
from gputrain.gcp.forms import Json, mapping, mappings

_OURS = "gputrain-"
_ELSE = "submit under another name= or idempotency_key="


def is_strangers(vm: Mapping[str, Any], job_id: str, home: str) -> bool:
    """Whether a VM is not of this job: of another, or of one of that id whose records lie elsewhere."""
    labels = mapping(vm.get("labels"))
    return labels.get(LABEL_JOB) != label_value(job_id) or labels.get(LABEL_HOME, home) != home


def whose(calls: Calls, zone: str, name: str, home: str) -> tuple[str, str]:
    """Who owns the VM of that name, as its labels and metadata tell, and what helps whoever wants the name.

    Args:
        home: the label of our own records; what bears it may be cleaned up, and nothing else.
    """
    vm = calls.instance(zone, name, fields=f"{INSTANCE_FIELDS},metadata")
    if vm is None:
        return f"{name} is gone, and its name not free yet", "submit again in a minute"
    labels = mapping(vm.get("labels"))
    theirs = ", ".join(f"{key}={value}" for key, value in labels.items() if not key.startswith(_OURS))
    more = f"; its labels: {theirs}" if theirs else ""
    job_id = labels.get(LABEL_JOB)
    if job_id is None:
        return f"{name} bears no label of gputrain's{more}", _ELSE
    if labels.get(LABEL_HOME) == home:
        fix = f"trainer.clean_up() deletes it if no job of this bucket needs it; or {_ELSE}"
        return f"{name} is of job {job_id} of this very bucket{more}", fix
    bucket = _bucket(vm, calls.access.project, labels.get(LABEL_HOME))
    return f"{name} is of job {job_id} of {bucket or 'another bucket or prefix'}{more}", _ELSE


def refusal(calls: Calls, gang: VmNames, home: str, raw: object) -> RequestError:
    """The error for VMs whose names are not free."""
    why, fix = whose(calls, gang.zone, gang.names[0], home)
    what = f"{', '.join(gang.names)} in {gang.zone}: the name is taken by a VM that is not of this job"
    return RequestError(what, why=why, fix=fix, raw=raw)


def _bucket(vm: Json, project: str, home: Any) -> str:
    """Where the records of a VM's job lie, by its document; empty where its label does not bear it out."""
    items = mappings(mapping(vm.get("metadata")).get("items"))
    text = next((one.get("value") for one in items if one.get("key") == JOB_KEY), "")
    with suppress(ValueError, TypeError, RecursionError):
        told = mapping(json.loads(str(text)))
        prefix = str(told.get("folder")).rpartition("jobs/")[0]
        bucket = BucketPrefix(name=str(told.get("bucket")), prefix=prefix)
        return bucket.uri("") if home_of(project, bucket) == home else ""
    return ""
