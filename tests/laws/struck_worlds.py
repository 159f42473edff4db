"""Where clients are struck: an emulated cloud or this machine, and what of a key is there afterwards."""

import tempfile
import time

import attrs

import gputrain_emulator
from gputrain.backends.local import Local
from gputrain.gcp import Api
from gputrain.trainer import Trainer
from tests.laws.struck_clients import Clients

SCRIPT = """
import fcntl, os, sys, time
ran = open(sys.argv[1] + os.environ["GPUTRAIN_JOB_ID"], "a")
try:
    fcntl.flock(ran, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    ran.write("beside another\\n")
ran.write("once\\n")
ran.flush()
time.sleep(0.3)
"""


WARM = 1
"""Of two that fork clients, the one that has submitted before."""


def warm_up(clients, **reach):
    told = clients.live("warms", ["cancel"], at_home=True, **reach)
    assert told["said"].startswith("gputrain://"), told
    assert "Error" not in told["said"], told


def new_cloud():
    """An emulated cloud with quota for all."""
    cloud = gputrain_emulator.start(rate_limits=False)
    cloud.add_bucket("my-bucket")
    for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 100_000)
    return cloud


def reach(cloud):
    """What an order says of a cloud."""
    return {
        "url": cloud.endpoints.url,
        "endpoints": {api.value: getattr(cloud.endpoints, api.value, "") for api in Api},
        "token": cloud.world.callers.issue(cloud.owner),
    }


def settle(cloud, told):
    """What a client had sent when it died is dealt with before anybody comes after it."""
    patience_s = 20.0 if told["sent"] == told["begun"] else 0.5
    until = time.monotonic() + patience_s
    while len(cloud.requests) < told["begun"] and time.monotonic() < until:
        time.sleep(0.005)


class InTheCloud:
    """One emulated backend, and what of a key is in it."""

    def __init__(self, kind, folder):
        self.kind, self.cloud = kind, new_cloud()
        script = folder / "train.py"
        script.write_text("pass\n")
        self.script, self.spec = str(script), {"gpu": "L4:1"}
        order = {"kind": kind, "script": self.script, "spec": self.spec, "waits_s": 0.5}
        self.clients = Clients(**order), Clients(**order)
        with new_cloud() as first:
            warm_up(self.clients[WARM], **reach(first))

    def renew(self):
        self._leave()
        self.cloud = new_cloud()

    def live(self, key, acts, strikes=(), *, is_warm=True, **more):
        self.cloud.dispatcher.requests.clear()
        told = self.clients[is_warm].live(key, acts, strikes, **more, **reach(self.cloud))
        settle(self.cloud, told)
        return told

    def there(self, job_id):
        """What of a job lives now."""
        vms = [
            vm.resource["labels"]["gputrain-gang"]
            for vm in self.cloud.compute.vms.values()
            if vm.resource["labels"].get("gputrain-job") == job_id and vm.status != "STOPPING"
        ]
        return [*vms, *(job.id for job in self._jobs(job_id) if job.life.ended is None and not _goes(job))]

    def has(self, job_id):
        """Whether there is a job, be it at its end."""
        return bool(self.there(job_id)) or any(not _goes(job) for job in self._jobs(job_id))

    def rest(self):
        self.cloud.clock.advance(60.0)

    def close(self):
        for clients in self.clients:
            clients.close()
        self._leave()

    def _leave(self):
        self.cloud.close()
        assert not self.cloud.dispatcher.failures

    def _jobs(self, job_id):
        jobs = self.cloud.vertex.jobs.values()
        return [job for job in jobs if job.document["displayName"] == job_id]


def _goes(job):
    """Whether it was withdrawn or cancelled, and is on its way out or gone."""
    return job.life.state.name in ("CANCELLING", "CANCELLED")


class Here:
    """This machine: its jobs are processes, and a script that runs twice at once says so."""

    kind = "local"

    def __init__(self, folder):
        self.folder = folder
        script = folder / "train.py"
        script.write_text(SCRIPT)
        self.script, self.spec = str(script), {"args": [f"{folder}/"]}
        order = {"kind": "local", "script": self.script, "spec": self.spec, "waits_s": 20.0}
        self.clients = Clients(**order), Clients(**order)
        warm_up(self.clients[WARM], root=tempfile.mkdtemp(dir=folder))
        self.renew()

    def renew(self):
        self.root = tempfile.mkdtemp(dir=self.folder)
        self.trainer = Trainer(Local(gpus=0, root=self.root))

    def live(self, key, acts, strikes=(), *, is_warm=True, **more):
        return self.clients[is_warm].live(key, acts, strikes, **more, root=self.root)

    def there(self, job_id):
        ran = self.folder / job_id
        beside = ["beside another"] * (ran.exists() and "beside another" in ran.read_text())
        return [job.ref.name for job in self._jobs(job_id) if not job.state.is_terminal] + beside

    def has(self, job_id):
        return bool(self._jobs(job_id))

    def rest(self):
        for job in self.trainer.jobs():
            job.wait(timeout=60, progress="none")

    def close(self):
        for clients in self.clients:
            clients.close()

    def _jobs(self, job_id):
        return [job for job in self.trainer.jobs() if job.ref.name == job_id]


@attrs.define
class Toll:
    """What many strikes came to."""

    kind: str
    keys: int = 0
    killed: int = 0
    interrupted: int = 0
    jobs: int = 0
    doubled: list = attrs.field(factory=list)
    missing: list = attrs.field(factory=list)
    running: list = attrs.field(factory=list)
    """Left so, though nobody may want it."""
    slow: list = attrs.field(factory=list)
    longest_ms: int = 0
    """That a client waited after its second Ctrl-C."""

    @property
    def broken(self):
        return [*self.doubled, *self.missing, *self.running, *self.slow]

    def __str__(self):
        bad = {"doubled": self.doubled, "missing": self.missing, "left running": self.running}
        told = ", ".join(f"{what} {len(found)}" for what, found in bad.items())
        struck = f"{self.killed} killed, {self.interrupted} met Ctrl-C ({len(self.slow)} over 2 s, "
        struck += f"longest {self.longest_ms / 1000:.1f} s)"
        return f"{self.kind}: {self.keys} keys, {struck}, {self.jobs} jobs, {told}"
