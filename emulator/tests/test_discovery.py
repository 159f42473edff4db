"""The validator finds planted mistakes, and finds nothing in exchanges that are right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from emulator.tests.discovery import Exchange, faults, find_method, validate
from emulator.tests.discovery_schema import Severity
from tests.each import each

INSTANCES = "/compute/v1/projects/proj/zones/us-central1-a/instances"
JOBS = "/v1/projects/proj/locations/us-central1/customJobs"

INSTANCE: dict[str, Any] = {
    "name": "vm-1",
    "machineType": "zones/us-central1-a/machineTypes/a2-highgpu-1g",
    "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "100"}}],
    "networkInterfaces": [{"network": "global/networks/default"}],
    "scheduling": {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": "3600"},
    },
}
OPERATION: dict[str, Any] = {
    "kind": "compute#operation",
    "id": "123",
    "name": "operation-1",
    "status": "PENDING",
    "progress": 0,
}
JOB: dict[str, Any] = {
    "displayName": "job",
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {"machineType": "a2-highgpu-1g", "acceleratorType": "NVIDIA_TESLA_A100"},
                "replicaCount": "1",
                "containerSpec": {"imageUri": "gcr.io/proj/train@sha256:0"},
            }
        ],
        "scheduling": {"timeout": "3600s", "strategy": "SPOT"},
    },
}


def _insert(change: Callable[[dict[str, Any]], object] = dict) -> Exchange:
    body = json.loads(json.dumps(INSTANCE))
    change(body)
    return Exchange(
        method="POST",
        path=INSTANCES,
        request_body=json.dumps(body).encode(),
        response_body=json.dumps(OPERATION).encode(),
    )


def _create(change: Callable[[dict[str, Any]], object] = dict) -> Exchange:
    body = json.loads(json.dumps(JOB))
    change(body)
    name, created = JOBS[4:] + "/1", "2026-11-21T04:00:00.5Z"
    answer = {**JOB, "name": name, "state": "JOB_STATE_QUEUED", "createTime": created}
    return Exchange(
        method="POST",
        path=JOBS,
        query=[("$alt", "json;enum-encoding=int")],
        request_body=json.dumps(body).encode(),
        response_body=json.dumps(answer).encode(),
    )


def _answer(exchange: Exchange, body: object) -> Exchange:
    return replace(exchange, response_body=json.dumps(body).encode())


def _pool(body: dict[str, Any]) -> dict[str, Any]:
    pool: dict[str, Any] = body["jobSpec"]["workerPoolSpecs"][0]
    return pool


PLANTED = {
    "an unknown field, deep": (
        _insert(lambda b: b["scheduling"].update(spot=True)),
        "request.scheduling.spot",
    ),
    "a number where text belongs": (
        _insert(lambda b: b.update(machineType=4)),
        "request.machineType",
    ),
    "an enum value that does not exist": (
        _insert(lambda b: b["scheduling"].update(provisioningModel="CHEAP")),
        "request.scheduling.provisioningModel",
    ),
    "an integer beyond 32 bits": (
        _create(lambda b: _pool(b)["machineSpec"].update(acceleratorCount=2**31)),
        "request.jobSpec.workerPoolSpecs[0].machineSpec.acceleratorCount",
    ),
    "a duration without its unit": (
        _create(lambda b: b["jobSpec"]["scheduling"].update(timeout="3600")),
        "request.jobSpec.scheduling.timeout",
    ),
    "a mapping where a list belongs": (
        _create(lambda b: b["jobSpec"].update(workerPoolSpecs={"replicaCount": "1"})),
        "request.jobSpec.workerPoolSpecs",
    ),
    "an unknown query parameter": (
        replace(_insert(), query=[("requestID", "x")]),
        "query.requestID",
    ),
    "a required query parameter left out": (
        Exchange(method="POST", path="/storage/v1/b", request_body=b'{"name": "b"}', response_body=b"{}"),
        "query.project",
    ),
    "a response with a field that Google does not send": (
        _answer(_insert(), {**OPERATION, "state": "PENDING"}),
        "response.state",
    ),
    "a 64-bit integer sent as a JSON number": (
        _answer(_insert(), {**OPERATION, "id": 123}),
        "response.id",
    ),
    "a response that is not JSON": (
        replace(_insert(), response_body=b"<html>"),
        "response",
    ),
    "an error whose code is not its status": (
        replace(_insert(), status=403, response_body=b'{"error": {"code": 400, "message": "no"}}'),
        "error.code",
    ),
    "a method that does not exist, answered with 200": (
        Exchange(method="PUT", path=INSTANCES, response_body=b"{}"),
        "path",
    ),
}


@each("name", PLANTED)
def test_a_planted_mistake_is_found_where_it_was_planted_and_nothing_else_is(name: str) -> None:
    exchange, where = PLANTED[name]
    assert [problem.where for problem in validate(exchange)] == [where]


@pytest.mark.parametrize("exchange", [_insert(), _create()], ids=["compute", "vertex"])
def test_an_exchange_that_is_right_has_no_problem(exchange: Exchange) -> None:
    assert validate(exchange) == []


def test_an_output_only_field_in_a_request_is_a_warning_and_not_a_fault() -> None:
    problems = validate(_create(lambda body: body.update(state="JOB_STATE_QUEUED")))
    assert [(each.where, each.severity) for each in problems] == [("request.state", Severity.WARNING)]
    assert faults(problems) == []


def test_vertex_reads_the_proto_spelling_of_a_field_and_compute_does_not() -> None:
    assert validate(_create(lambda body: _pool(body).update(replica_count="1"))) == []
    found = validate(_insert(lambda body: body["scheduling"].update(provisioning_model="SPOT")))
    assert [problem.where for problem in found] == ["request.scheduling.provisioning_model"]


def test_a_refused_request_is_judged_by_its_error_alone() -> None:
    refused = replace(
        _insert(lambda body: body.update(colour="blue")),
        status=400,
        response_body=b'{"error": {"code": 400, "message": "Unknown name"}}',
    )
    assert validate(refused) == []


@each(
    ("verb", "path", "method_id"),
    [
        ("GET", INSTANCES + "/vm-1/serialPort", "compute.instances.getSerialPortOutput"),
        ("POST", JOBS + "/1:cancel", "aiplatform.projects.locations.customJobs.cancel"),
        ("POST", "/v2/entries:list", "logging.entries.list"),
        ("POST", "/upload/storage/v1/b/bucket/o", "storage.objects.insert"),
        ("GET", "/storage/v1/b/bucket/o/a%2Fb", "storage.objects.get"),
        ("GET", "/v1/projects/proj/services/compute.googleapis.com", "serviceusage.services.get"),
        ("POST", "/v3/projects/proj:testIamPermissions", "cloudresourcemanager.projects.testIamPermissions"),
    ],
)
def test_a_path_finds_the_method_that_google_serves_there(verb: str, path: str, method_id: str) -> None:
    method = find_method(verb, path)
    assert method is not None
    assert method.id == method_id
