"""A cloud of one's own, a backend that waits by moving its clock, and jobs that are launched there."""

import json

import pytest

from gputrain.backends.compute import ComputeEngine
from gputrain.google import Objects
from gputrain.orchestration.look import look
from gputrain.orchestration.options import draw
from gputrain.runtime.contract import SCHEMA
from gputrain_emulator.clock import zulu_time
from tests.support.attempts import Process
from tests.support.clock import jumping
from tests.support.clouds import REGION, emulated, settings

FIELDS = {"gpu": "L4:1", "machine_type": "g2-standard-4", "num_nodes": 2, "max_run_duration": "1h"}


class Jobs(Process):
    """Submits jobs and looks after them, as a process does that remembers nothing of others."""

    def __init__(self, cloud, backend, code):
        self.cloud = cloud
        super().__init__(backend, cloud.clock.now, cloud.clock.advance, script=code, **FIELDS)

    def request(self, job_id="bert", **fields):
        """The request of an attempt at the best place, which no record names."""
        spec = self.spec(**fields)
        record, (best, *_) = self.first(job_id, spec)
        attempt = draw(record, best, self.context.now())
        return self.backend.build_request(record, spec, attempt, best, self.code(record))

    def launch(self, job_id="bert", **fields):
        """Launch one attempt; what is refused is raised."""
        return self.backend.launch(self.request(job_id, **fields))

    def names(self, job_id="bert"):
        return list(self.record(job_id).attempt.names)

    def look(self, job_id="bert"):
        return look(self.context, job_id)

    def pass_by(self, seconds, job_id="bert", every_s=10):
        """Let time pass while the job is reconciled."""
        for _ in range(int(seconds // every_s)):
            self.cloud.clock.advance(every_s)
            self.reconcile(job_id)

    def say(self, rank, phase, job_id="bert", record=None, **document):
        """Write as the guest of a node does that came to this phase now."""
        now, past = zulu_time(self.cloud.clock.now()), zulu_time(self.cloud.clock.now() - 30)
        times = {"waiting_at": past, "running_at": past, f"{phase}_at": now}
        told = {"schema": SCHEMA, "phase": phase, "node_rank": rank, "why": "", **times, **document}
        record = record or self.record(job_id)
        name = f"jobs/{record.job_id}/{record.attempt.id}/status-{rank}.json"
        Objects(self.backend._access, "my-bucket").write(name, json.dumps(told).encode(), if_generation=None)

    def run(self, job_id="bert"):
        """Have all guests come up and their ranks run."""
        self.cloud.clock.advance(60)
        for number in range(len(self.names(job_id))):
            self.say(number, "running", job_id)

    def leave(self, name):
        """Have a guest remove its VM, as it does at its end."""
        vm = next(vm for vm in self.cloud.compute.vms.values() if vm.name == name)
        self.backend._calls.delete(vm.zone, name)

    def vms(self):
        return sorted(vm.name for vm in self.cloud.compute.vms.values())

    def left(self):
        """What is there of groups, templates, requests and VMs."""
        kinds = ("instanceTemplates", "instanceGroupManagers", "instanceGroupManagerResizeRequests")
        found = [name for kind in kinds for name in self.cloud.compute.resources[kind]]
        return sorted([one.rpartition("/")[2] for one in found] + self.vms())


@pytest.fixture
def cloud():
    """The test fails if anything that was said departs from Google's published documents."""
    with emulated(is_judged=True) as running:
        yield running


@pytest.fixture
def make(cloud):
    """Makes backends; waiting moves the emulator's clock."""

    return lambda **own: ComputeEngine(
        **settings(cloud, **{"regions": [REGION], "sleep": jumping(cloud), **own})
    )


@pytest.fixture
def backend(make):
    return make()


@pytest.fixture
def jobs_of(cloud, make, code):
    """Makes processes, each with a backend of its own."""
    for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 10_000)
    return lambda **settings: Jobs(cloud, make(**settings), code)


@pytest.fixture
def jobs(jobs_of):
    return jobs_of()
