"""The validator finds planted mistakes, and finds nothing in exchanges that are right."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

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
SPEC = {"workerPoolSpecs": [POOL], "scheduling": {"timeout": "3600s", "strategy": "SPOT"}}
ANSWER = {"name": f"{JOBS[4:]}/1", "state": "JOB_STATE_QUEUED", "createTime": "2026-11-21T04:00:00.5Z"}


def insert(answer: Any = OPERATION, **request: Any) -> Exchange:
    body, told = json.dumps({**INSTANCE, **request}).encode(), json.dumps(answer).encode()
    return Exchange(method="POST", path=INSTANCES, request_body=body, response_body=told)


def run(**spec: Any) -> Exchange:
    job = {"displayName": "job", "jobSpec": {**SPEC, **spec}}
    body, told = json.dumps(job).encode(), json.dumps(ANSWER).encode()
    query = (("$alt", "json;enum-encoding=int"),)
    return Exchange(method="POST", path=JOBS, query=query, request_body=body, response_body=told)


BUCKET = Exchange(method="POST", path="/storage/v1/b", request_body=b'{"name": "b"}', response_body=b"{}")
PLANTED = [
    (insert(scheduling={"spot": True}), "request.scheduling.spot"),
    (insert(machineType=4), "request.machineType"),
    (insert(scheduling={"provisioningModel": "CHEAP"}), "request.scheduling.provisioningModel"),
    (run(workerPoolSpecs=[{"replicaCount": 2**63}]), "request.jobSpec.workerPoolSpecs[0].replicaCount"),
    (run(scheduling={"timeout": "3600"}), "request.jobSpec.scheduling.timeout"),  # without its unit
    (run(workerPoolSpecs={}), "request.jobSpec.workerPoolSpecs"),
    (replace(insert(), query=[("requestID", "x")]), "query.requestID"),
    (BUCKET, "query.project"),  # required, and left out
    (insert({**OPERATION, "state": "PENDING"}), "response.state"),  # a field that Google does not send
    (insert({**OPERATION, "id": 123}), "response.id"),  # a 64-bit integer as a JSON number
    (replace(insert(), response_body=b"<html>"), "response"),
    (replace(insert(), status=403, response_body=b'{"error": {"code": 400, "message": "no"}}'), "error.code"),
    (Exchange(method="PUT", path=INSTANCES, response_body=b"{}"), "path"),  # no such method
]


@each(("exchange", "where"), PLANTED)
def test_a_planted_mistake_is_found_where_it_was_planted_and_nothing_else_is(
    exchange: Exchange, where: str
) -> None:
    assert [problem.where for problem in validate(exchange)] == [where]


@each("exchange", [insert(), run()])
def test_an_exchange_that_is_right_has_no_problem(exchange: Exchange) -> None:
    assert validate(exchange) == []
