"""Cloud Logging through Google's own client, and the filter gcloud sends for a custom job's logs."""

from __future__ import annotations

from typing import Any

import google.cloud.logging
import pytest
from google.api_core.exceptions import Forbidden
from google.cloud.logging import Resource

from emulator.tests.vertex_jobs import a_job, client_of, create
from gputrain_emulator import Cloud
from gputrain_emulator.logging import matcher
from gputrain_emulator.vertex import Fate, Vertex
from tests.each import each

ENTRY = {
    "logName": "projects/p/logs/workerpool0-0",
    "resource": {"type": "ml_job", "labels": {"job_id": "77", "task_name": "workerpool0-0"}},
    "timestamp": "2026-11-20T12:00:00.5Z",
    "severity": "WARNING",
    "labels": {"compute.googleapis.com/resource_name": "worker-0", "run": "Alpha"},
    "jsonPayload": {"message": "step 10 loss 0.5", "step": 10, "done": False, "tags": ["a", "b"]},
}


def logging_client_of(cloud: Cloud, credentials: Any) -> Any:
    google.cloud.logging_v2._instrumentation_emitted = True  # else it writes an entry about itself
    return google.cloud.logging.Client(
        project=cloud.project,
        credentials=credentials,
        _use_grpc=False,
        client_options={"api_endpoint": cloud.endpoints.logging},
    )


@pytest.fixture
def client(cloud: Cloud) -> Any:
    return logging_client_of(cloud, cloud.credentials)


# Said in every filter, as Google's client otherwise asks for the last 24 hours of the wall clock only.
SINCE = 'timestamp>="2026-11-20T00:00:00Z"'


def texts(client: Any, wanted: str = "", **more: Any) -> list[Any]:
    """What Google's client reads. It looks for a metadata server once for each entry, so it reads little."""
    return [entry.payload for entry in client.list_entries(filter_=f"{SINCE} {wanted}", **more)]


@each(
    ("wanted", "found"),
    [
        ("", True),
        ('resource.type="ml_job" AND resource.labels.job_id="77"', True),
        ("resource.type=ml_job resource.labels.job_id=78", False),
        ('labels."compute.googleapis.com/resource_name"="worker-0"', True),
        ("labels.run=alpha", True),
        ("severity>=WARNING", True),
        ("severity>WARNING", False),
        ("severity<error", True),
        ('timestamp>="2026-11-20T12:00:00.5Z"', True),
        ('timestamp>"2026-11-20T12:00:00.5Z"', False),
        ('timestamp>="2026-11-20T12:00:00.500000001Z"', False),
        ('timestamp<"2026-11-20T14:00:00.6+02:00"', True),
        ('timestamp>"2026-11-20"', True),
        ("jsonPayload.done=false", True),
        ("jsonPayload.tags=b AND NOT jsonPayload.step=11", True),
        ('textPayload:"loss 0" OR jsonPayload.message:"LOSS 0"', True),
        ("jsonPayload.none=1", False),
        ("jsonPayload.none!=1", False),
        ('logName="projects/p/logs/workerpool0-0"', True),
        # OR binds tighter than AND, NOT tightest; two terms side by side are an AND
        ("labels.run=x OR severity=WARNING AND labels.run=alpha OR severity=ERROR", True),
        ("labels.run=alpha OR severity=WARNING AND labels.run=x OR severity=ERROR", False),
        ("NOT labels.run=alpha severity=WARNING", False),
        ("(labels.run=x OR severity=WARNING) AND jsonPayload.step=10", True),
        ("(labels.run=alpha\nseverity=WARNING) jsonPayload.step=11", False),
        (r'jsonPayload.message="step \"10\" \\ there"', False),
    ],
)
def test_filters_find_what_google_would(wanted: str, found: bool) -> None:
    assert matcher(wanted)(ENTRY) is found


def test_what_is_written_is_read_back(client: Any) -> None:
    logger = client.logger("mine")
    logger.log_text("hello", severity="ERROR", labels={"k": "v"})
    logger.log_struct({"message": "there"}, resource=Resource(type="gce_instance", labels={"zone": "z"}))
    assert texts(client, "severity=ERROR labels.k=v") == ["hello"]
    (entry,) = client.list_entries(filter_=f"{SINCE} resource.type=gce_instance")
    assert (entry.payload, entry.resource.labels) == ({"message": "there"}, {"zone": "z"})


def test_a_custom_jobs_logs_are_found_by_the_filter_gcloud_sends(cloud: Cloud, client: Any) -> None:
    vertex = cloud.world.part(Vertex)
    made = create(cloud, client_of(cloud))
    cloud.clock.advance(100)
    vertex.write_log(made.name, "workerpool0-0", "hello from rank 0")
    cloud.clock.advance(1000)
    ident = made.name.rpartition("/")[2]
    wanted = (
        f'resource.type="ml_job" AND resource.labels.job_id="{ident}" AND '
        'timestamp>="2026-11-20T12:00:00Z" AND timestamp<"2026-11-20T13:00:00Z"'
    )
    found = list(client.list_entries(filter_=wanted, order_by="timestamp asc", page_size=1000))
    said = [(entry.resource.labels["task_name"], text_of(entry)) for entry in found]
    assert said == [
        ("service", "Waiting for job to be provisioned."),
        ("service", "Job is running."),
        ("workerpool0-0", "hello from rank 0"),
        ("service", "Job completed successfully."),
    ]


def text_of(entry: Any) -> str:
    """The service writes texts, the replicas' agent objects."""
    return str(entry.payload["message"] if isinstance(entry.payload, dict) else entry.payload)


def test_v19_an_account_without_log_writer_leaves_no_line(cloud: Cloud, client: Any) -> None:
    account = "mute@my-project.iam.gserviceaccount.com"
    vertex = cloud.world.part(Vertex)
    vertex.deaf_accounts.add(account)
    vertex.set_fate(Fate(exits=(1,)))
    made = create(cloud, client_of(cloud), a_job(service_account=account))
    cloud.clock.advance(100)
    vertex.write_log(made.name, "workerpool0-0", "never seen")
    cloud.clock.advance(1000)
    entries = list(client.list_entries(filter_=SINCE, page_size=2))
    assert len(entries) > 2
    assert {entry.resource.labels["task_name"] for entry in entries} == {"service"}


def test_readers_need_the_permission_and_the_api(cloud: Cloud) -> None:
    reader = cloud.caller("writer@example.com", ["logging.logEntries.create"])
    limited = logging_client_of(cloud, cloud.credentials_of(reader))
    limited.logger("mine").log_text("x")
    with pytest.raises(Forbidden, match=r"logging\.logEntries\.list"):
        texts(limited)
    cloud.enable_api("logging", enabled=False)
    with pytest.raises(Forbidden, match="has not been used"):
        limited.logger("mine").log_text("x")
