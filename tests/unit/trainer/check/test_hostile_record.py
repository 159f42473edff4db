"""A record that somebody else has rewritten: whoever watches reads it, and does nothing by its word alone.

Every field is replaced in turn by values of every JSON type, and by what an attacker would write there. Then
a stranger to the job, with settings of its own, attaches, looks, supervises, lists, cleans up and cancels.
"""

import contextlib
import copy
import json

import pytest

from gputrain.errors import GputrainError
from gputrain.google import Objects
from tests.unit.trainer.conftest import L4, MACHINE

ANYTHING = [None, True, -1, 0, 1 << 70, 1e308, "", "x" * 70_000, "\x00\ud800", [], [[]], {}, {"a": 1}]
TEXTS = [
    "prod-db", "../../prod", "victim-0-0", "us-central1-b", "europe-west4", "gs://attacker-bucket/",
    "cancelled", "compute", "vertex", "local", "made", "deadbeef", "us-central1-a; touch x", "$(reboot)",
]  # fmt: skip
SPEC = {
    "gpu": ["H100:8", "L4:0"], "num_nodes": [1000, 0], "machine_type": ["a3-highgpu-8g"],
    "labels": [{"gputrain-job": "victim"}, {"gputrain-attempt": "x"}], "image": ["evil.example/x:1"],
    "env": [{"LD_PRELOAD": "/x.so"}], "secrets": [{"KEY": "secret://projects/other/secrets/s/versions/1"}],
    "max_restarts": [10**9], "max_run_duration": ["7d", "-1s"], "checkpoint_dir": ["gs://attacker-bucket/c"],
    "service_account": ["org-admin@victim.iam.gserviceaccount.com"], "region": ["europe-west4"],
}  # fmt: skip


def paths(value, so_far=()):
    """The way to every field of a document, the whole of it first."""
    yield so_far
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from paths(one, (*so_far, key))


def replaced(document, path, value):
    changed = copy.deepcopy(document)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


def attacks(document):
    for path in paths(document):
        if path:
            for value in (*ANYTHING, *TEXTS):
                yield path, value
    for name, values in SPEC.items():
        for value in values:
            yield ("spec", name), value


def act_on(uri, trainer):
    """Look, go on, clean up and cancel, each as a stranger to the job."""
    acts = (
        lambda trainer: trainer.attach(uri).supervise(),
        lambda trainer: trainer.supervise(),
        lambda trainer: trainer.clean_up(),
        lambda trainer: trainer.attach(uri).cancel(),
    )
    for act in acts:
        with contextlib.suppress(GputrainError):
            act(trainer("vertex", "compute"))


class Cloud:
    """A cloud with a job whose record is rewritten, another job, and a VM of nobody's."""

    def __init__(self, cloud, trainer, script, kind):
        self.cloud, self.trainer, self.kind = cloud, trainer, kind
        cloud.add_project("attacker-project")
        cloud.add_bucket("attacker-bucket", location="us-central1", project="attacker-project")
        self.victim = trainer("compute").submit(script, **{**L4, "max_run_duration": "7d"}, name="victim")
        self.uri = self._job(script)
        self.objects = Objects(trainer("compute")._backends["compute"]._access, "my-bucket")
        self.name = f"records/{self.uri.rpartition('/')[2]}.json"
        self.document = json.loads(self.objects.read(self.name).content)
        self.kept = {key for key, vm in cloud.compute.vms.items() if vm.name.startswith("victim")}
        self.jobs = set(cloud.vertex.jobs)
        self.account = {vm.resource["serviceAccounts"][0]["email"] for vm in cloud.compute.vms.values()}

    def _job(self, script):
        """One that could be started again: reclaimed, or without machines after all."""
        cloud = self.cloud
        if self.kind == "vertex":
            cloud.vertex.set_stock(MACHINE, 0, region="us-central1")
            job = self.trainer("vertex", "compute").submit(script, **L4, name="bert", max_wait_duration="7d")
            cloud.clock.advance(1000)
            return job.uri
        spot = {"provisioning_model": "spot", "max_restarts": 3}
        job = self.trainer("compute").submit(script, **L4, **spot, name="bert")
        cloud.clock.advance(120)
        cloud.preempt(job.machines[0], to_stock=True)
        cloud.clock.advance(400)
        return job.uri

    def attack(self, content):
        """Have a stranger act on it; what came out of it that is no error of ours."""
        self.write(content)
        act_on(self.uri, self.trainer)

    def write(self, content):
        self.objects.write(self.name, content, if_generation=None)

    def check(self):
        """Nothing of anybody else's is gone, nothing new is other than the settings say."""
        vms = self.cloud.compute.vms
        assert self.kept <= set(vms)
        for key, vm in list(vms.items()):
            if key in self.kept:
                continue
            told = vm.resource
            assert {one["email"] for one in told["serviceAccounts"]} <= self.account
            assert told["labels"]["gputrain-job"] != "victim"
            assert all("attacker" not in one.get("network", "") for one in told["networkInterfaces"])
            assert vm.zone.startswith("us-central1")
            del vms[key]
        for number in set(self.cloud.vertex.jobs) - self.jobs:
            made = self.cloud.vertex.jobs.pop(number)
            assert "serviceAccount" not in made.document["jobSpec"]
            assert made.region == "us-central1"


def everything(ours, every_nth):
    """Attack by each of these values; one that is let in is named."""
    every = list(attacks(ours.document))
    assert len(every) > 1000
    for path, value in every[::every_nth]:
        ours.attack(json.dumps(replaced(ours.document, path, value)).encode())
        try:
            ours.check()
        except AssertionError as error:
            raise AssertionError(f"{path} = {str(value)[:80]!r}: {error}") from error


def test_a_record_that_nobody_has_rewritten_is_acted_on(cloud, trainer, script):
    ours = Cloud(cloud, trainer, script, "compute")
    before = len(cloud.compute.vms)
    assert trainer("compute").attach(ours.uri).supervise()
    assert len(cloud.compute.vms) == before + 1


@pytest.mark.parametrize("kind", ["compute", "vertex"])
def test_whatever_a_record_says_only_the_settings_act(cloud, trainer, script, kind):
    everything(Cloud(cloud, trainer, script, kind), 197 if kind == "compute" else 211)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["compute", "vertex"])
def test_whatever_a_record_says_in_any_field_only_the_settings_act(cloud, trainer, script, kind):
    everything(Cloud(cloud, trainer, script, kind), 1)
