"""Jobs of Compute Engine in the user's own image: real containers, a real registry, machines that boot."""

import importlib.util
import json

import pytest

from gputrain import JobFailedError, State, Trainer
from gputrain_emulator.storage import Storage
from tests.machines.containers.conftest import ACCOUNT, ALONE, BARE, IMAGE
from tests.patience import until
from tests.unit.runtime.fenced import Job

MEET = """
import os, socket, sys
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
print("image:", open("/etc/image").read().strip(), sys.executable, os.environ["OF_THE_IMAGE"], flush=True)
print("shared MiB:", os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize >> 20, flush=True)
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        for _ in range(1, world):
            print("rank 0 met", server.accept()[0].recv(99).decode(), flush=True)
else:
    while True:
        try:
            socket.create_connection(place).sendall(f"rank {rank} of {socket.gethostname()}".encode())
            break
        except OSError:
            pass
"""

TRAIN = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(dist.get_rank()))
for step in range(20):
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = [torch.zeros(4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.detach()[0])
assert all(torch.equal(weights[0], other) for other in weights)
if dist.get_rank() == 0:
    print("in", open("/etc/image").read().strip(), "the loss fell to", round(float(loss), 3), flush=True)
dist.destroy_process_group()
"""


SAVE = """
import os, signal, sys, time
def save(*_):
    path = os.path.join(os.environ["GPUTRAIN_CHECKPOINT_DIR"], "saved-" + os.environ["RANK"])
    with open(path, "w") as file: file.write("step 7")
    os._exit(75)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: time.sleep(0.05)
"""


@pytest.fixture
def submit(backend, tmp_path):
    def send(text, **fields):
        (tmp_path / "code").mkdir(exist_ok=True)
        path = tmp_path / "code" / "train.py"
        path.write_text(text)
        asked = {"gpu": "L4:1", "image": IMAGE, "max_run_duration": "10m", **fields}
        return Trainer(backend).submit(str(path), **asked)

    return send


def said(job):
    return "\n".join(line.message for line in job.logs())


def stored(cloud):
    """Every object, by the end of its name."""
    objects = cloud.world.part(Storage).objects.walk("my-bucket")
    return {one.name.rpartition("/")[2]: one for one in objects}


def test_ranks_in_the_containers_of_two_vms_find_each_other(cloud, submit):
    job = submit(MEET, gpu="L4:2", num_nodes=2)
    assert job.wait(timeout=100) is State.SUCCEEDED, said(job)
    assert said(job).count("image: made of this computer's files /usr/bin/python3 kept") == 4
    assert said(job).count("rank 0 met rank") == 3
    shared = [int(row.split()[-1]) for row in said(job).splitlines() if row.startswith("shared MiB:")]
    assert min(shared) > 1024  # the VM's own, where a container's usual 64 MiB end a data loader
    until(lambda: not cloud.compute.vms)
    assert {"0-000000000000000", "1-000000000000000", "status-0.json", "status-1.json"} <= set(stored(cloud))
    seen = cloud.registry.seen
    assert {who for who, path, status in seen if "/blobs/" in path and status == 200} == {ACCOUNT}
    asked = {path.rpartition("/")[2] for who, path, _ in seen if who == ACCOUNT and "/manifests/" in path}
    assert [reference[:7] for reference in asked] == ["sha256:"]  # what the tag meant at submission


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_ranks_of_two_containers_train_one_model(submit):
    job = submit(TRAIN, num_nodes=2, env={"OMP_NUM_THREADS": "1"})
    assert job.wait(timeout=150) is State.SUCCEEDED, said(job)
    assert "in made of this computer's files the loss fell to 0.0" in said(job)


def test_values_and_words_of_any_bytes_arrive_and_steer_nothing_on_the_vm(submit):
    env = {
        "PATH": "/nowhere", "DOCKER_HOST": "tcp://127.0.0.1:9", "LD_PRELOAD": "/nowhere.so",
        "LINES": "one\ntwo\r\n three ", "SHELLS": "$(poweroff) `reboot` ' \" \\ ; && |",
        "WORLDS": "größe 漢 🚀",
    }  # fmt: skip
    words = ["--gpus", "$HOME", "a\nb", "", "'; exit 3; '", "é"]
    show = "import os, sys, json\nprint('got', json.dumps([dict(os.environ), sys.argv[1:]]))"
    job = submit(show, env=env, args=words)
    assert job.wait(timeout=100) is State.SUCCEEDED, said(job)
    (line,) = [row for row in said(job).splitlines() if row.startswith("got ")]
    seen, argv = json.loads(line[4:])
    assert {name: seen[name] for name in env} == env
    assert argv == words


def test_an_image_runs_as_it_is(cloud, backend):
    env = {"DOCKER_HOST": "tcp://127.0.0.1:9", "LD_PRELOAD": "/nowhere.so"}
    job = Trainer(backend).submit(image=ALONE, gpu="L4:1", env=env, max_run_duration="10m")
    assert job.wait(timeout=100) is State.SUCCEEDED, said(job)
    assert "itself: ['--epochs', '5'] /tmp kept /usr/bin:/bin:/sbin" in said(job)
    assert [one.name for one in job.outputs.list()] == ["model"]
    job = Trainer(backend).submit(image=ALONE, args=["fail"], gpu="L4:1", max_run_duration="10m")
    with pytest.raises(JobFailedError, match="the loss is no number"):
        job.result(timeout=100)
    until(lambda: not cloud.compute.vms)


def test_a_reclaimed_vm_lets_the_ranks_in_its_container_save(cloud, submit):
    job = submit(SAVE, provisioning_model="spot")
    until(lambda: "ready" in said(job))
    cloud.preempt(job.machines[0])
    with pytest.raises(JobFailedError) as caught:
        job.result(timeout=100)
    assert caught.value.kind == "preempted"
    assert "saved-0" in stored(cloud)


def test_an_image_that_is_not_there_fails_the_boot_and_the_vm_goes(cloud, submit):
    job = submit("print('hello')", image=IMAGE.replace(":1", "@sha256:" + "0" * 64))
    with pytest.raises(JobFailedError, match="cannot be pulled") as caught:
        job.result(timeout=100)
    assert caught.value.kind == "boot"
    assert "manifest unknown" in str(caught.value)
    until(lambda: not cloud.compute.vms)


def test_an_account_that_may_not_read_the_image_is_told_with_the_role(cloud, submit):
    objects = ("create", "get", "list", "delete")
    cloud.caller(ACCOUNT, {"compute.instances.delete", *(f"storage.objects.{verb}" for verb in objects)})
    job = submit("print('hello')")
    with pytest.raises(JobFailedError, match=r"roles/artifactregistry\.reader") as caught:
        job.result(timeout=100)
    assert "artifactregistry.repositories.downloadArtifacts" in str(caught.value)
    until(lambda: not cloud.compute.vms)


def test_an_image_without_python_is_told_as_such(cloud, submit):
    with pytest.raises(JobFailedError, match="python3") as caught:
        submit("print('hello')", image=BARE).result(timeout=100)
    assert caught.value.kind == "boot"
    assert "did not start with python3 of" in str(caught.value)


def test_ranks_in_a_container_are_killed_and_save_nothing_once_another_attempt_trains(cloud, tmp_path):
    Job(cloud, tmp_path, IMAGE).is_superseded_while_it_trains()
