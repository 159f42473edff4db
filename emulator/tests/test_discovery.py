"""The validator finds planted mistakes, and finds nothing in exchanges that are right."""

# ruff: noqa: E501 - one row a line

from __future__ import annotations

import json
from collections.abc import Callable
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

Change = Callable[[dict[str, Any]], object]


def _post(path: str, body: dict[str, Any], change: Change, answer: dict[str, Any], *query: Any) -> Exchange:
    body = json.loads(json.dumps(body))
    change(body)
    return Exchange(
        method="POST", path=path, query=query, request_body=json.dumps(body).encode(),
        response_body=json.dumps(answer).encode(),
    )  # fmt: skip


def _insert(change: Change = dict, **answer: Any) -> Exchange:
    return _post(INSTANCES, INSTANCE, change, {**OPERATION, **answer})


def _create(change: Change = dict) -> Exchange:
    answer = {"name": f"{JOBS[4:]}/1", "state": "JOB_STATE_QUEUED", "createTime": "2026-11-21T04:00:00.5Z"}
    return _post(JOBS, JOB, change, {**JOB, **answer}, ("$alt", "json;enum-encoding=int"))


def _pool(body: dict[str, Any]) -> Any:
    return body["jobSpec"]["workerPoolSpecs"][0]


BUCKET = Exchange(method="POST", path="/storage/v1/b", request_body=b'{"name": "b"}', response_body=b"{}")
PLANTED = {
    "an unknown field, deep": (_insert(lambda b: b["scheduling"].update(spot=True)), "request.scheduling.spot"),
    "a number where text belongs": (_insert(lambda b: b.update(machineType=4)), "request.machineType"),
    "an enum value that does not exist": (
        _insert(lambda b: b["scheduling"].update(provisioningModel="CHEAP")), "request.scheduling.provisioningModel",
    ),
    "an integer beyond 32 bits": (
        _create(lambda b: _pool(b)["machineSpec"].update(acceleratorCount=2**31)),
        "request.jobSpec.workerPoolSpecs[0].machineSpec.acceleratorCount",
    ),
    "a duration without its unit": (
        _create(lambda b: b["jobSpec"]["scheduling"].update(timeout="3600")), "request.jobSpec.scheduling.timeout",
    ),
    "a mapping where a list belongs": (
        _create(lambda b: b["jobSpec"].update(workerPoolSpecs={})), "request.jobSpec.workerPoolSpecs",
    ),
    "an unknown query parameter": (replace(_insert(), query=[("requestID", "x")]), "query.requestID"),
    "a required query parameter left out": (BUCKET, "query.project"),
    "a response with a field that Google does not send": (_insert(state="PENDING"), "response.state"),
    "a 64-bit integer sent as a JSON number": (_insert(id=123), "response.id"),
    "a response that is not JSON": (replace(_insert(), response_body=b"<html>"), "response"),
    "an error whose code is not its status": (
        replace(_insert(), status=403, response_body=b'{"error": {"code": 400, "message": "no"}}'), "error.code",
    ),
    "a method that does not exist, answered with 200": (
        Exchange(method="PUT", path=INSTANCES, response_body=b"{}"), "path",
    ),
}  # fmt: skip


@each("name", PLANTED)
def test_a_planted_mistake_is_found_where_it_was_planted_and_nothing_else_is(name: str) -> None:
    exchange, where = PLANTED[name]
    assert [problem.where for problem in validate(exchange)] == [where]


@pytest.mark.parametrize("exchange", [_insert(), _create()], ids=["compute", "vertex"])
def test_an_exchange_that_is_right_has_no_problem(exchange: Exchange) -> None:
    assert validate(exchange) == []
