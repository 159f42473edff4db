"""The validator finds planted mistakes, and finds nothing in exchanges that are right."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from emulator.tests.discovery import Exchange, validate
from tests.each import each

INSTANCES = "/compute/v1/projects/proj/zones/us-central1-a/instances"
JOBS = "/v1/projects/proj/locations/us-central1/customJobs"
INSTANCE: dict[str, Any] = {
    "name": "vm-1", "machineType": "zones/us-central1-a/machineTypes/a2-highgpu-1g",
    "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "100"}}],
    "networkInterfaces": [{"network": "global/networks/default"}],
    "scheduling": {"provisioningModel": "SPOT", "maxRunDuration": {"seconds": "3600"}},
}  # fmt: skip
OPERATION = {"kind": "compute#operation", "id": "123", "name": "operation-1", "status": "PENDING"}
POOL = {
    "machineSpec": {"machineType": "a2-highgpu-1g", "acceleratorType": "NVIDIA_TESLA_A100"},
    "replicaCount": "1",
    "containerSpec": {"imageUri": "gcr.io/proj/train@sha256:0"},
}
SCHEDULING = {"timeout": "3600s", "strategy": "SPOT"}
JOB = {"displayName": "job", "jobSpec": {"workerPoolSpecs": [POOL], "scheduling": SCHEDULING}}

ANSWER = {**JOB, "name": f"{JOBS[4:]}/1", "state": "JOB_STATE_QUEUED", "createTime": "2026-11-21T04:00:00.5Z"}


def insert(**answer: Any) -> Exchange:
    return post(INSTANCES, INSTANCE, {**OPERATION, **answer})


def post(path: str, body: Any, answer: Any, *query: Any, at: str = "", value: Any = None) -> Exchange:
    """An exchange that is right but for ``value``, planted into the request where ``at`` says."""
    body = json.loads(json.dumps(body))
    *parents, last = at.split(".")
    here: Any = body
    for key in parents:
        here = here[int(key)] if key.isdigit() else here[key]
    if last:
        here[last] = value
    whole, told = json.dumps(body).encode(), json.dumps(answer).encode()
    return Exchange(method="POST", path=path, query=query, request_body=whole, response_body=told)


VM, RUN = (INSTANCES, INSTANCE, OPERATION), (JOBS, JOB, ANSWER, ("$alt", "json;enum-encoding=int"))
BUCKET = Exchange(method="POST", path="/storage/v1/b", request_body=b'{"name": "b"}', response_body=b"{}")
REQUESTS = [
    (VM, "scheduling.spot", True),  # an unknown field, deep
    (VM, "machineType", 4),
    (VM, "scheduling.provisioningModel", "CHEAP"),
    (RUN, "jobSpec.workerPoolSpecs.0.machineSpec.acceleratorCount", 2**31),
    (RUN, "jobSpec.scheduling.timeout", "3600"),  # a duration without its unit
    (RUN, "jobSpec.workerPoolSpecs", {}),
]
PLANTED = [
    *(
        (post(*base, at=at, value=value), f"request.{at}".replace(".0", "[0]"))
        for base, at, value in REQUESTS
    ),
    (replace(insert(), query=[("requestID", "x")]), "query.requestID"),
    (BUCKET, "query.project"),  # required, and left out
    (insert(state="PENDING"), "response.state"),  # a field that Google does not send
    (insert(id=123), "response.id"),  # a 64-bit integer as a JSON number
    (replace(insert(), response_body=b"<html>"), "response"),
    (replace(insert(), status=403, response_body=b'{"error": {"code": 400, "message": "no"}}'), "error.code"),
    (Exchange(method="PUT", path=INSTANCES, response_body=b"{}"), "path"),  # no such method
]


@each(("exchange", "where"), PLANTED)
def test_a_planted_mistake_is_found_where_it_was_planted_and_nothing_else_is(
    exchange: Exchange, where: str
) -> None:
    assert [problem.where for problem in validate(exchange)] == [where]


@pytest.mark.parametrize("exchange", [post(*VM), post(*RUN)], ids=["compute", "vertex"])
def test_an_exchange_that_is_right_has_no_problem(exchange: Exchange) -> None:
    assert validate(exchange) == []
