"""A cloud of one's own, a backend that waits by moving its clock, and jobs that are launched there."""

import json
from datetime import datetime, timezone

import pytest

from gputrain.backends.compute import ComputeEngine
from gputrain.google import Objects
from gputrain.jobstore import JobRecord, JobStore
from gputrain.keeper.status import SCHEMA
from gputrain.orchestration.context import Context
from gputrain.orchestration.launcher import reconcile, submit
from gputrain.orchestration.look import look
from gputrain.orchestration.options import candidates_left, draw, option_of, remaining
from gputrain.orchestration.steps import cancel
from gputrain.planning import candidates, rank
from gputrain.spec import TrainingSpec
from gputrain_emulator.clock import zulu_time
from tests.support.clock import jumping
from tests.support.clouds import REGION, emulated

FIELDS = {"gpu": "L4:1", "machine_type": "g2-standard-4", "num_nodes": 2, "max_run_duration": "1h"}


class Jobs:
    """Submits jobs and looks after them, as a process does that remembers nothing of others."""

    def __init__(self, cloud, backend, code, sleep=None):
        self.cloud, self.backend, self.code = cloud, backend, code
        self.context = Context(
            jobs=JobStore(self.backend.documents),
            backends={"compute": backend},
            code=self._code,
            candidates_left=self._left,
            refresh=tuple,
            now=lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc),
            sleep=sleep or cloud.clock.advance,
        )

    def spec(self, **fields):
        return TrainingSpec(**{"script": self.code, **FIELDS, **fields})

    def submit(self, job_id="bert", **fields):
        spec = self.spec(**fields)
        wanted = candidates(spec, [self.backend.supply])
        plan = rank(wanted.candidates, self.backend.availability(wanted.candidates))
        options = tuple(option_of(one) for one in plan)
        first = JobRecord(job_id=job_id, spec=spec.to_dict(), options=options)
        longest = spec.max_wait_duration
        give_up_at = None if longest is None else self.context.now() + longest
        return submit(self.context, first, plan, give_up_at)

    def request(self, job_id="bert", **fields):
        """The request of an attempt at the best place, which no record names."""
        spec = self.spec(**fields)
        best = rank(candidates(spec, [self.backend.supply]).candidates, {})[0]
        record = JobRecord(job_id=job_id, spec=spec.to_dict(), options=(option_of(best),))
        attempt = draw(record, best, self.context.now())
        return self.backend.build_request(record, spec, attempt, best, self._code(record, ""))

    def launch(self, job_id="bert", **fields):
        """Launch one attempt; what is refused is raised."""
        return self.backend.launch(self.request(job_id, **fields))

    def record(self, job_id="bert"):
        return self.context.jobs.read(job_id).record

    def names(self, job_id="bert"):
        return list(self.record(job_id).attempt.names)

    def look(self, job_id="bert"):
        return look(self.context, job_id)

    def status(self, job_id="bert"):
        return self.backend.inspect_many([self.record(job_id)])[job_id]

    def reconcile(self, job_id="bert"):
        return reconcile(self.context, job_id)

    def cancel(self, job_id="bert", grace_s=30):
        return cancel(self.context, job_id, grace_s)

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

    def _code(self, _record, _backend):
        bundle = self.backend.package(self.spec(), "bert")
        self.backend.upload(bundle)
        return bundle

    def _left(self, record):
        spec = remaining(record, TrainingSpec.from_dict(record.spec))
        return () if spec is None else candidates_left(record, spec, [self.backend.supply])


@pytest.fixture
def cloud():
    """The test fails if anything that was said departs from Google's published documents."""
    with emulated(is_judged=True) as running:
        yield running


@pytest.fixture
def make(cloud):
    """Makes backends; waiting moves the emulator's clock."""

    def build(**settings):
        given = {
            "project": "my-project",
            "regions": [REGION],
            "bucket": "gs://my-bucket",
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials,
            "sleep": jumping(cloud),
            "now": cloud.clock.now,
        }
        return ComputeEngine(**{**given, **settings})

    return build


@pytest.fixture
def backend(make):
    return make()


@pytest.fixture
def code(tmp_path):
    """The path of a script in a folder of its own."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    return str(folder / "train.py")


@pytest.fixture
def jobs_of(cloud, make, code):
    """Makes processes, each with a backend of its own."""
    for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 10_000)
    return lambda **settings: Jobs(cloud, make(**settings), code)


@pytest.fixture
def jobs(jobs_of):
    return jobs_of()
