"""What the guest does with a machine that is not as it should be; each VM boots the real startup script."""

import json
import random
import time
import urllib.request

import pytest
from attrs import evolve

from gputrain.backends.compute import ComputeEngine
from gputrain.errors import JobLostError
from gputrain.keeper.cloud import LAST_S
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import DropBeforeCommit, Refuse
from gputrain_emulator.live import LiveMode, gpus
from gputrain_emulator.storage import Storage
from tests.contract.clouds import live_cloud
from tests.patience import PATIENCE_S
from tests.unit.steps import Steps

ACCOUNT = "gputrain@my-project.iam.gserviceaccount.com"
HELLO = "print('hello', flush=True)"
WAIT = "import time\nprint('waiting', flush=True)\ntime.sleep(600)"


@pytest.fixture
def cloud():
    with live_cloud() as running:
        yield running


@pytest.fixture
def road(cloud):
    return Steps(
        ComputeEngine(
            "my-project",
            regions=["us-central1"],
            bucket="gs://my-bucket",
            endpoints=cloud.endpoints,
            credentials=cloud.credentials,
            poll_s=0.2,
            driver_wait_s=0,
        )
    )


@pytest.fixture
def spec(tmp_path):
    def build(text, **fields):
        path = tmp_path / "code" / "train.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return TrainingSpec(**{"script": str(path), "gpu": "L4:1", "max_run_duration": "10m", **fields})

    return build


def wait_until(claim, patience_s=PATIENCE_S):
    patience = time.monotonic() + patience_s
    while not claim() and time.monotonic() < patience:
        time.sleep(0.05)
    assert claim()


def with_gpus(request, count):
    """The request of a job that expects another number of GPUs than its machine has."""
    return evolve(request, body={**request.body, "job": {**request.body["job"], "gpus": count}})


def test_a_machine_with_too_few_gpus_trains_nothing_and_says_what_it_saw(cloud, road, spec):
    ref = road.create(with_gpus(road.request(spec(HELLO)), 2))
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "boot")
    assert "nvidia-smi sees 1 GPUs, and this machine should have 2" in seen.failure.message
    assert "hello" not in road.text(ref)
    wait_until(lambda: not cloud.compute.vms)


def test_a_vm_that_boots_twice_does_not_train_twice(cloud, road, spec):
    ref = road.submit(spec(WAIT), job_id="twice-1")
    road.until_said(ref, "waiting")
    access = road.backend._access
    url = (
        f"{cloud.endpoints.compute}/compute/v1/projects/my-project/zones/us-central1-a/instances/twice-1-0-0"
    )
    access.post(f"{url}/reset", action="press the reset button")
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "rebooted")
    assert road.text(ref).count("waiting") == 1
    wait_until(lambda: not cloud.compute.vms)


def test_a_vm_that_may_not_delete_itself_powers_off_and_is_cleaned(cloud, road, spec):
    buckets = {
        "storage.objects.create",
        "storage.objects.get",
        "storage.objects.list",
        "storage.objects.delete",
    }
    cloud.caller(ACCOUNT, buckets)
    ref = road.submit(spec(HELLO), job_id="stays-1")
    wait_until(lambda: [vm.status for vm in cloud.compute.vms.values()] == ["TERMINATED"])
    (orphan,) = road.backend.orphans()
    assert (orphan.name, orphan.place, orphan.job_id) == ("stays-1-0-0", "us-central1-a", "stays-1")
    assert orphan.price.usd_h > 0
    assert road.backend.clean_up() == (orphan,)
    wait_until(lambda: not cloud.compute.vms)
    assert road.end(ref).state is State.SUCCEEDED


def test_a_vm_that_is_only_halted_is_removed_by_whoever_waits_for_the_job(cloud, road, spec):
    ref = road.submit(spec(WAIT), job_id="halts-1")
    road.until_said(ref, "waiting")
    cloud.host_error("halts-1-0-0")
    assert road.end(ref).failure.kind == "host_error"
    assert [vm.status for vm in cloud.compute.vms.values()] == ["TERMINATED"]
    assert not road.supervise(ref)
    wait_until(lambda: not cloud.compute.vms and not cloud.compute.resources["disks"])


def test_a_gang_that_comes_second_does_nothing(cloud, road, spec):
    store = cloud.world.part(Storage).objects
    held = json.dumps({"nonce": "00000000beef", "token": "x"}).encode()
    road.backend._access.post(
        f"{cloud.endpoints.storage}/upload/storage/v1/b/my-bucket/o",
        action="hold the lock",
        params={"uploadType": "media", "name": "jobs/second-1/attempt-0/lock"},
        data=held,
    )
    road.submit(spec(HELLO), job_id="second-1")
    wait_until(lambda: not cloud.compute.vms)
    names = [stored.name for stored in store.walk("my-bucket")]
    assert not [name for name in names if "status-" in name]


def test_a_living_job_is_no_orphan(cloud, road, spec):
    ref = road.submit(spec(WAIT))
    road.until_said(ref, "waiting")
    assert road.backend.clean_up() == ()
    assert road.backend.observe(ref).state is State.RUNNING
    line = Trainer(road.backend).attach(ref.uri).ssh_command()
    assert line.endswith("-0-0 --project my-project --zone us-central1-a --tunnel-through-iap")
    road.backend.cancel(ref)
    assert road.end(ref).state is State.CANCELLED


def test_a_checkpoint_of_all_nodes_is_in_the_bucket_and_comes_back(cloud, road, spec):
    write = (
        "import os\n"
        "folder = os.environ['GPUTRAIN_CHECKPOINT_DIR']\n"
        "rank = os.environ['RANK']\n"
        "print('found', sorted(os.listdir(folder)), flush=True)\n"
        "open(os.path.join(folder, f'rank-{rank}.pt'), 'w').write(rank * 1000)\n"
        "open(os.path.join(folder, 'empty-' + rank), 'w').close()\n"
    )
    fields = {"num_nodes": 2, "checkpoint_dir": "gs://my-bucket/ckpt"}
    road.end(road.submit(spec(write, **fields)))
    stored = {one.name: one.content.size for one in cloud.world.part(Storage).objects.walk("my-bucket")}
    kept = {name: size for name, size in stored.items() if name.startswith("ckpt/")}
    assert kept == {"ckpt/rank-0.pt": 1000, "ckpt/rank-1.pt": 1000, "ckpt/empty-0": 0, "ckpt/empty-1": 0}
    second = road.submit(spec(write, **fields))
    road.end(second)
    assert "found ['empty-0', 'empty-1', 'rank-0.pt', 'rank-1.pt']" in road.text(second)


class Mute(LiveMode):
    """Machines of which one never boots."""

    def boot(self, vm):
        if not vm.name.endswith("-1"):
            super().boot(vm)


class Clock:
    """Real time, ahead of which a test may jump."""

    ahead_s = 0.0

    def now(self):
        return time.time() + self.ahead_s


@pytest.fixture
def hurried(cloud):
    """A road whose clock can jump."""
    clock = Clock()
    backend = ComputeEngine(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket", endpoints=cloud.endpoints,
        credentials=cloud.credentials, poll_s=0.2, driver_wait_s=0, now=clock.now,
    )  # fmt: skip
    return Steps(backend), clock


def end_after_a_while(road, clock, ref):
    """The end of a half gang, as whoever waits for it brings it about: the rest has some minutes to save."""
    road.supervise(ref)
    clock.ahead_s += 200
    road.supervise(ref)
    seen = road.end(ref)
    road.supervise(ref)
    return seen


def test_when_a_vm_dies_before_the_nodes_have_met_the_rest_does_not_live_on(cloud, hurried, spec):
    cloud.compute.settings.acpi_s = 5.0  # a machine that still boots may not hear the power button
    road, clock = hurried
    ref = road.submit(spec(HELLO, num_nodes=2), job_id="half-1")
    cloud.host_error("half-1-0-1")
    seen = road.until(ref, lambda seen: "half-1-0-1 is gone" in seen.detail)
    assert seen.state is not State.FAILED
    seen = end_after_a_while(road, clock, ref)
    assert (seen.state, seen.failure.kind, seen.failure.node_rank) == (State.FAILED, "host_error", 1)
    wait_until(lambda: not cloud.compute.vms and not cloud.compute.resources["disks"])


def impatient(road, spec, job_id):
    """A gang that waits no second for those of it that do not boot."""
    request = road.request(spec(HELLO, num_nodes=2), job_id=job_id)
    job = {**request.body["job"], "boot_wait_s": 0}
    return road.create(evolve(request, body={**request.body, "job": job}))


def test_a_node_that_never_boots_is_deleted_by_its_peer_though_nobody_watches(cloud, road, spec):
    cloud.attach(Mute(cloud.world))
    cloud.compute.settings.acpi_s = 0.2  # nothing in it hears the power button
    ref = impatient(road, spec, "alone-1")
    wait_until(lambda: not cloud.compute.vms and not cloud.compute.resources["disks"])
    assert not cloud.compute.vms
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "boot")
    assert "alone-1-0-1 never booted" in seen.failure.message


def test_a_node_that_never_boots_is_named_and_holds_nobody(cloud, hurried, spec):
    cloud.attach(Mute(cloud.world))
    cloud.compute.settings.acpi_s = 0.2  # nothing in it hears the power button
    road, clock = hurried
    ref = impatient(road, spec, "mute-1")
    road.until(ref, lambda seen: "whoever waits for the job ends the rest" in seen.detail)
    seen = end_after_a_while(road, clock, ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "boot")
    assert "mute-1-0-1 never booted" in seen.failure.message
    wait_until(lambda: not cloud.compute.vms)


def test_two_gangs_of_one_machine_do_not_meet(cloud, road, spec):
    refs = [road.submit(spec(HELLO, num_nodes=2), job_id=f"pair-{number}") for number in range(2)]
    assert [road.end(ref).state for ref in refs] == [State.SUCCEEDED] * 2


class Driverless(LiveMode):
    """Machines whose driver does not come up."""

    def boot(self, vm):
        vm.gpus = 0
        super().boot(vm)


def test_a_machine_without_a_driver_says_what_to_do(cloud, road, spec):
    cloud.attach(Driverless(cloud.world))
    seen = road.end(road.submit(spec(HELLO)))
    assert (seen.state, seen.failure.kind) == (State.FAILED, "boot")
    assert "nvidia-smi is missing or does not answer" in seen.failure.message
    assert "image_family=" in seen.failure.message


def of_eight(road, spec):
    """A job on a machine of eight GPUs, joined by NVSwitch; it asks the GPUs nothing."""
    return road.submit(spec(HELLO, gpu="H100:8", nproc_per_node=1, provisioning_model="spot"))


def test_gpus_that_nvswitch_has_joined_are_used(cloud, road, spec):
    cloud.quota("PREEMPTIBLE_NVIDIA_H100_GPUS", 8)
    assert road.end(of_eight(road, spec)).state is State.SUCCEEDED


@pytest.mark.parametrize("state", ["Not Started", "In Progress"])
def test_gpus_that_nvswitch_never_joins_are_told_of_before_cuda_fails(cloud, road, spec, monkeypatch, state):
    cloud.quota("PREEMPTIBLE_NVIDIA_H100_GPUS", 8)
    monkeypatch.setattr(gpus, "FABRIC", state)
    ref = of_eight(road, spec)
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "boot")
    assert f"NVSwitch has not joined 8 of 8 GPUs after 0 s ({state}, [N/A])" in seen.failure.message
    assert "hello" not in road.text(ref)


class Garbled(LiveMode):
    """Machines whose metadata does not hold what it was given."""

    key = text = ""

    def boot(self, vm):
        for item in vm.resource["metadata"]["items"]:
            if item["key"] == self.key:
                item["value"] = self.text
        super().boot(vm)


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("gputrain-keeper", "no JSON", b"the keeper cannot be brought, so this VM is powered off"),
        ("gputrain-keeper", '{"gputrain/k": "", "gputrain/k/vm.py": ""}', b"the keeper cannot be brought"),
        ("gputrain-job", "no JSON", b"cannot tell what its job is, and powers off"),
        ("gputrain-job", '{"names": []}', b"cannot tell what its job is, and powers off"),
    ],
)
def test_a_vm_that_cannot_know_its_job_says_so_and_powers_off(cloud, road, spec, key, text, said):
    garbled = Garbled(cloud.world)
    garbled.key, garbled.text = key, text
    cloud.attach(garbled)
    ref = road.submit(spec(HELLO))
    wait_until(lambda: [vm.status for vm in cloud.compute.vms.values()] == ["TERMINATED"])
    (vm,) = cloud.compute.vms.values()
    assert said in vm.serial.read(0)[0]
    assert road.end(ref).failure.kind == "guest_shutdown"


AGAIN = """
import subprocess, sys
words = [sys.executable, "-m", "gputrain.keeper.vm"]
again = subprocess.run(words, cwd="/var/lib/gputrain", stderr=subprocess.PIPE)
print("again:", again.returncode, again.stderr.decode(), flush=True)
"""


def test_a_startup_script_that_is_run_again_by_hand_disturbs_nothing(cloud, road, spec):
    ref = road.submit(spec(AGAIN))
    assert road.end(ref).state is State.SUCCEEDED
    assert road.text(ref).count("again: 0 gputrain: this job runs here already") == 1


UNTIL_GONE = """
import os, time, urllib.error, urllib.request
print("waiting", flush=True)
while True:
    try:
        urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/my-bucket").read()
        time.sleep(0.1)
    except urllib.error.HTTPError as error:
        assert error.code == 404
        break
"""


def test_a_bucket_that_is_gone_mid_run_keeps_no_vm(cloud, road, spec):
    ref = road.submit(spec(UNTIL_GONE), job_id="gone-1")
    road.until_said(ref, "waiting")
    gone = ApiError(404, "The specified bucket does not exist.", reason="notFound")
    order = cloud.fail("storage.*", Refuse(error=gone), times=None)
    with pytest.raises(JobLostError, match="gone-1"):
        again(road).observe(ref)
    wait_until(lambda: not cloud.compute.vms)
    order.cancel()
    seen = again(road).observe(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "vanished")
    assert "could not write to the bucket" in seen.detail


def again(road):
    """A backend of another process."""
    reach = {"endpoints": road.backend._access.endpoints, "credentials": road.backend._access.credentials}
    return ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)


DUMP = """
import json, os, sys
mine = {name: value for name, value in os.environ.items() if name.startswith("GIVEN_")}
print("told", json.dumps([sys.argv[1:], mine]), flush=True)
print("started", sorted(os.listdir("/tmp")), flush=True)
"""
ALPHABET = "\x01\t\n\r \"'$`\\;&|<>(){}[]*?!#~%^=+-@,.:/aZ0\x7f\x85é☃\u202e😀"
LURES = [
    "$(touch /tmp/lured)",
    "`touch /tmp/lured`",
    "; touch /tmp/lured;",
    "\n touch /tmp/lured\n",
    "--help",
]


def test_arguments_and_variables_of_any_characters_arrive_and_start_nothing(cloud, road, spec):
    dice = random.Random(7)
    words = ["".join(dice.choices(ALPHABET, k=dice.randrange(40))) for _ in range(150)] + LURES
    variables = {f"GIVEN_{number}": word for number, word in enumerate(words)}
    ref = road.submit(spec(DUMP, args=words, env=variables))
    assert road.end(ref).state is State.SUCCEEDED
    (told,) = [line.message[5:] for line in road.lines(ref) if line.message.startswith("told ")]
    assert json.loads(told) == [words, variables]
    assert "lured" not in road.text(ref).split("started ")[1]


LOUD = """
print("x" * 1_000_000, flush=True)
for number in range(20_000):
    print("line", number)
print("done", flush=True)
"""


def test_a_rank_that_is_loud_ends_well_and_the_log_has_all_of_it(cloud, road, spec):
    ref = road.submit(spec(LOUD))
    assert road.end(ref).state is State.SUCCEEDED
    said = [line.message for line in road.lines(ref) if line.rank == 0]
    assert said[-20_001:] == [*(f"line {number}" for number in range(20_000)), "done"]
    assert sum(map(len, said[:-20_001])) == 1_000_000


@pytest.mark.soak
def test_a_guest_that_loses_the_network_for_good_powers_off(cloud, road, spec):
    script = "import time\nprint('waiting', flush=True)\ntime.sleep(4)"
    ref = road.submit(spec(script, max_run_duration="2h"), job_id="cut-1")
    road.until_said(ref, "waiting")
    cloud.fail("*", DropBeforeCommit(), times=None, caller=ACCOUNT)
    vms = cloud.compute.vms.values()
    wait_until(lambda: [vm.status for vm in vms] == ["TERMINATED"], patience_s=LAST_S + 400)
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "guest_shutdown")
    road.backend.tidy(ref, seen)
    wait_until(lambda: not cloud.compute.vms)


SAVES = """
import os
folder = os.environ["GPUTRAIN_CHECKPOINT_DIR"]
for name, text in (("log.txt", "second"), ("step-1/shard", "1"), ("step-1/COMPLETE", "")):
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)
"""


def test_a_job_whose_checkpoints_are_not_all_saved_is_no_success_and_says_which(cloud, road, spec):
    storage = cloud.endpoints.storage
    headers = {}
    cloud.credentials.before_request(None, "POST", storage, headers)
    for method, url, body in (
        ("POST", "/upload/storage/v1/b/my-bucket/o?uploadType=media&name=ckpt/log.txt", b"first"),
        ("PATCH", "/storage/v1/b/my-bucket/o/ckpt%2Flog.txt", b'{"temporaryHold": true}'),
    ):
        told = {**headers, "Content-Type": "application/json"}
        request = urllib.request.Request(storage + url, data=body, method=method, headers=told)
        urllib.request.urlopen(request).close()
    seen = road.end(road.submit(spec(SAVES, checkpoint_dir="gs://my-bucket/ckpt")))
    assert (seen.state, seen.failure.kind) == (State.FAILED, "unsaved")
    assert "1 file was not saved in gs://my-bucket/ckpt: log.txt (" in seen.failure.message
    assert "hold" in seen.failure.message
    found = {one.name for one in cloud.world.part(Storage).objects.walk("my-bucket")}
    assert {"ckpt/step-1/shard", "ckpt/step-1/COMPLETE"} <= found
    wait_until(lambda: not cloud.compute.vms)


def test_a_whole_bucket_is_a_checkpoint_dir(cloud, road, spec):
    cloud.world.part(Storage).add_bucket("ckpts", location="us-central1")
    for _ in range(2):
        seen = road.end(road.submit(spec(SAVES, checkpoint_dir="gs://ckpts")))
        assert seen.state is State.SUCCEEDED
    found = {one.name for one in cloud.world.part(Storage).objects.walk("ckpts")}
    assert found == {"log.txt", "step-1/shard", "step-1/COMPLETE"}


def test_more_arguments_than_one_word_holds_reach_the_script(cloud, road, spec):
    script = "import sys\nprint('got', sum(map(len, sys.argv[1:])), flush=True)"
    ref = road.submit(spec(script, args=["z" * 1000] * 150))
    assert road.end(ref).state is State.SUCCEEDED
    assert "got 150000" in road.text(ref)
