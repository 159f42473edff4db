"""Simulated guests of jobs with a record obey it as the real ones do."""

import json
from urllib.parse import quote

import pytest

from gputrain.entrypoint import contract
from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import DropBeforeCommit, Refuse
from tests.each import each
from tests.simulation.guests import Guests
from tests.simulation.truth import Truth
from tests.support.clouds import emulated
from tests.support.records import BETWEEN, OTHER, OURS

FOLDER = f"jobs/bert/{OURS.attempt.id}/"
LABELS = {"gputrain-job": "bert", "gputrain-attempt": OURS.attempt.id}
DENIED = Refuse(error=ApiError(403, "no storage.objects.get access", reason="forbidden"))
LAST_S = 2000.0
"""By then every guest has given up, trained to its end, or obeyed."""


class World:
    """A cloud, the record of one job, and guests of one attempt that end well by themselves."""

    def __init__(self, cloud):
        self.cloud, self.truth = cloud, Truth(cloud.clock)
        self.guests = Guests(cloud, self.truth, 0, ("done",))
        cloud.attach(self.guests)

    def ask(self, verb, target, body):
        status, answer = self.guests.ask(verb, target, json.dumps(body).encode())
        assert status == 200, answer

    def write(self, record):
        self.guests.put("my-bucket", "records/bert.json", b"{}")
        name = quote("records/bert.json", safe="")
        self.ask("PATCH", f"/storage/v1/b/my-bucket/o/{name}", {"metadata": record.metadata})

    def vm(self):
        job = {
            "job_id": "bert", "names": ["bert-0"], "record": "records/bert.json", "attempt": OURS.attempt.id,
            "folder": "jobs/bert/", "bucket": "my-bucket", "zone": "us-central1-a", "project": "my-project",
            "max_run_s": 3600, "boot_wait_s": 3600, "is_queued": False,
        }  # fmt: skip
        image = "projects/debian-cloud/global/images/family/debian-12"
        body = {
            "name": "bert-0", "labels": LABELS,
            "machineType": "zones/us-central1-a/machineTypes/n1-standard-1",
            "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": image}}],
            "networkInterfaces": [{"network": "global/networks/default"}],
            "metadata": {"items": [{"key": "gputrain-job", "value": json.dumps(job)}]},
        }  # fmt: skip
        self.ask("POST", "/compute/v1/projects/my-project/zones/us-central1-a/instances", body)

    def job(self):
        env = {
            contract.RECORD: "records/bert.json", contract.ATTEMPT_ID: OURS.attempt.id,
            contract.CLAIM: FOLDER + "claim",
        }  # fmt: skip
        container = {
            "imageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4:latest",
            "args": [json.dumps({"bucket": "my-bucket"})],
            "env": [{"name": name, "value": value} for name, value in env.items()],
        }
        pool = {
            "replicaCount": 1,
            "machineSpec": {"machineType": "n1-standard-4"},
            "containerSpec": container,
        }
        body = {"displayName": "bert", "labels": LABELS, "jobSpec": {"workerPoolSpecs": [pool]}}
        self.ask("POST", "/v1/projects/my-project/locations/us-central1/customJobs", body)

    def status(self):
        told = json.loads(self.guests.get("my-bucket", FOLDER + "status-0.json"))
        return told["phase"], told.get("why")

    def until_it_trains(self):
        for _ in range(600):
            if self.truth.trainings:
                return
            self.cloud.clock.advance(1.0)
        raise AssertionError("it never trains")


@pytest.fixture
def world():
    with emulated() as cloud:
        yield World(cloud)


@each(("record", "fault", "why"), [
    (OURS, None, ""), (OURS, DENIED, "boot"), (OURS, DropBeforeCommit(), "boot"),
    (OURS.cancel(), None, "cancelled"), (OTHER, None, "superseded"), (BETWEEN, None, "superseded"),
    (None, None, "superseded"),
])  # fmt: skip
def test_a_guest_begins_only_as_its_record_says(record, fault, why):
    for kind in ("vm", "job"):
        with emulated() as cloud:
            world = World(cloud)
            if record:
                world.write(record)
            if fault:
                cloud.fail("storage.objects.get", fault, times=None)
            getattr(world, kind)()
            cloud.clock.advance(LAST_S)
            cloud.world.faults.clear()
            assert bool(world.truth.trainings) is (why == "")
            assert not cloud.compute.vms
            if kind == "vm":
                assert world.status() == ("ended", why)
            else:
                (job,) = cloud.vertex.jobs.values()
                assert job.life.state.name == ("FAILED" if why == "boot" else "SUCCEEDED")


@each(("record", "why"), [(OURS.cancel(), "cancelled"), (OTHER, "superseded"), (None, "")])
def test_a_guest_that_trains_asks_every_few_seconds(record, why):
    for kind in ("vm", "job"):
        with emulated() as cloud:
            world = World(cloud)
            world.write(OURS)
            getattr(world, kind)()
            world.until_it_trains()
            if record:
                world.write(record)
            else:
                cloud.fail("storage.objects.get", DENIED, times=None)
            began = cloud.clock.now()
            cloud.clock.advance(LAST_S)
            (one,) = world.truth.trainings
            assert (one.until - began <= 5.0) is (why != "")
            assert one.code == {"cancelled": 75, "superseded": None, "": 0}[why]


def test_of_two_jobs_of_an_attempt_one_trains(world):
    world.write(OURS)
    world.job()
    world.job()
    world.cloud.clock.advance(LAST_S)
    assert len(world.truth.trainings) == 1
    assert {job.life.state.name for job in world.cloud.vertex.jobs.values()} == {"SUCCEEDED"}
