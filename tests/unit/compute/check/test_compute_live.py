"""What the guest does with a machine that is not as it should be; each VM boots the real startup script."""

import json
import time

import pytest

from gputrain import State
from gputrain.runtime.cloud import LAST_S
from gputrain_emulator.faults import DropBeforeCommit
from gputrain_emulator.live import LiveMode, gpus
from tests.contract.clouds import ComputeRoad, live_cloud
from tests.patience import until

ACCOUNT = "gputrain@my-project.iam.gserviceaccount.com"
HELLO = "print('hello', flush=True)"
WAIT = "import time\nprint('waiting', flush=True)\ntime.sleep(600)"


class Clock:
    """Real time, ahead of which a test may jump."""

    ahead_s = 0.0

    def now(self):
        return time.time() + self.ahead_s


class GuestRoad(ComputeRoad):
    """Jobs of one region that wait for no driver, and a clock that can jump."""

    def __init__(self, cloud):
        self.clock = Clock()
        super().__init__(cloud)
        self.settings |= {"driver_wait_s": 0, "now": self.clock.now}
        self.trainer = self.fresh()

    def end_after_a_while(self, job):
        """The end of a job that lost a node: the others have some minutes to save."""
        job.refresh()
        job.supervise()
        self.clock.ahead_s += 200
        return self.end(job)

    def alter(self, change):
        """Have machines boot as they are after a change; one that gives False never boots."""
        machines = Altered(self.cloud.world)
        machines.change = change
        self.cloud.attach(machines)


class Altered(LiveMode):
    """Machines that are not as they were asked for."""

    def boot(self, vm):
        if self.change(vm) is not False:
            super().boot(vm)


def item_of(vm, key):
    return next(one for one in vm.resource["metadata"]["items"] if one["key"] == key)


def in_its_job(**document):
    """A change of the document of a VM's job."""

    def change(vm):
        item = item_of(vm, "gputrain-job")
        item["value"] = json.dumps({**json.loads(item["value"]), **document})

    return change


@pytest.fixture
def cloud():
    with live_cloud() as running:
        yield running


@pytest.fixture
def road(cloud):
    return GuestRoad(cloud)


@pytest.fixture
def submit(road, tmp_path):
    """Submits a script by its text."""

    def of(text, **fields):
        path = tmp_path / "code" / "train.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return road.submit(str(path), **{"max_run_duration": "10m", **fields})

    return of


def failed(road, job, kind):
    assert (road.end(job), job.failure.kind) == (State.FAILED, kind)
    return job.failure.message


def test_a_machine_with_too_few_gpus_trains_nothing_and_says_what_it_saw(cloud, road, submit):
    road.alter(in_its_job(gpus=2))
    job = submit(HELLO)
    assert "nvidia-smi sees 1 GPUs, and this machine should have 2" in failed(road, job, "boot")
    assert "hello" not in road.text(job)
    until(lambda: not cloud.compute.vms)


def test_a_vm_that_boots_twice_does_not_train_twice(cloud, road, submit):
    job = submit(WAIT)
    road.until_said(job, "waiting")
    (vm,) = cloud.compute.vms.values()
    url = f"{cloud.endpoints.compute}/compute/v1/projects/my-project/zones/{vm.zone}/instances/{vm.name}"
    road.backend()._access.post(f"{url}/reset", action="press the reset button")
    failed(road, job, "rebooted")
    assert road.text(job).count("waiting") == 1
    until(lambda: not cloud.compute.vms)


def test_a_vm_that_may_not_delete_itself_powers_off_and_is_cleaned(cloud, road, submit):
    buckets = {f"storage.objects.{verb}" for verb in ("create", "get", "list", "delete")}
    cloud.caller(ACCOUNT, buckets)
    job = submit(HELLO)
    until(lambda: [vm.status for vm in cloud.compute.vms.values()] == ["TERMINATED"])
    orphans = road.trainer.orphans()
    assert [(one.name, one.job_id) for one in orphans] == [(*job.machines, job.id)]
    assert orphans[0].price.usd_h > 0
    assert road.trainer.clean_up() == orphans
    until(lambda: not cloud.compute.vms)
    assert road.end(job) is State.SUCCEEDED


def test_a_checkpoint_of_all_nodes_is_in_the_bucket_and_comes_back(cloud, road, submit):
    write = (
        "import os\n"
        "folder = os.environ['GPUTRAIN_CHECKPOINT_DIR']\n"
        "rank = os.environ['RANK']\n"
        "print('found', sorted(os.listdir(folder)), flush=True)\n"
        "open(os.path.join(folder, f'rank-{rank}.pt'), 'w').write(rank * 1000)\n"
        "open(os.path.join(folder, 'empty-' + rank), 'w').close()\n"
    )
    fields = {"num_nodes": 2, "checkpoint_dir": "gs://my-bucket/ckpt"}
    road.end(submit(write, **fields))
    stored = {one.name: one.content.size for one in cloud.storage.objects.walk("my-bucket")}
    kept = {name: size for name, size in stored.items() if name.startswith("ckpt/")}
    assert kept == {"ckpt/rank-0.pt": 1000, "ckpt/rank-1.pt": 1000, "ckpt/empty-0": 0, "ckpt/empty-1": 0}
    second = submit(write, **fields)
    road.end(second)
    assert "found ['empty-0', 'empty-1', 'rank-0.pt', 'rank-1.pt']" in road.text(second)


def mute(vm):
    """One node never boots, and the others wait no second for it."""
    in_its_job(boot_wait_s=0)(vm)
    return not vm.name.endswith("-1")


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_node_that_never_boots_is_named_and_deleted_by_its_peer(cloud, road, submit, is_watched):
    road.alter(mute)
    cloud.compute.settings.acpi_s = 0.2  # nothing in it hears the power button
    job = submit(HELLO, num_nodes=2)
    if is_watched:
        road.until(job, lambda job: "is gone; the others have to save" in job.detail, may_end=True)
        road.end_after_a_while(job)
    until(lambda: not cloud.compute.vms and not cloud.compute.resources["disks"])
    assert f"{job.machines[1]} never booted" in failed(road, job, "boot")


def test_a_machine_without_a_driver_says_what_to_do(cloud, road, submit):
    road.alter(lambda vm: setattr(vm, "gpus", 0))
    message = failed(road, submit(HELLO), "boot")
    assert "nvidia-smi is missing or does not answer" in message
    assert "image_family=" in message


EIGHT = {"gpu": "H100:8", "nproc_per_node": 1, "provisioning_model": "spot"}
"""A machine of eight GPUs, joined by NVSwitch; the job asks the GPUs nothing."""


@pytest.mark.parametrize("state", ["Not Started", "In Progress"])
def test_gpus_that_nvswitch_never_joins_are_told_of_before_cuda_fails(
    cloud, road, submit, monkeypatch, state
):
    cloud.quota("PREEMPTIBLE_NVIDIA_H100_GPUS", 8)
    monkeypatch.setattr(gpus, "FABRIC", state)
    job = submit(HELLO, **EIGHT)
    assert f"NVSwitch has not joined 8 of 8 GPUs after 0 s ({state}, [N/A])" in failed(road, job, "boot")
    assert "hello" not in road.text(job)


@pytest.mark.soak
def test_a_guest_that_loses_the_network_for_good_powers_off(cloud, road, submit):
    job = submit("import time\nprint('waiting', flush=True)\ntime.sleep(30)", max_run_duration="2h")
    road.until_said(job, "waiting")
    cloud.fail("*", DropBeforeCommit(), times=None, caller=ACCOUNT)
    vms = cloud.compute.vms.values()
    until(lambda: [vm.status for vm in vms] == ["TERMINATED"], seconds=LAST_S + 400)
    failed(road, job, "guest_shutdown")
    until(lambda: not cloud.compute.vms)


def test_a_bucket_that_cannot_be_mounted_fails_the_boot_and_names_the_right(cloud, road, submit):
    message = failed(road, submit(HELLO, checkpoint_dir="gs://not-there/ckpt"), "boot")
    assert "gs://not-there/ckpt cannot be mounted: " in message
    assert "does not exist" in message
    assert "roles/storage.objectUser" in message
    until(lambda: not cloud.compute.vms)
