"""What CPUs cannot show: NCCL, what the driver tells, memory that runs out, and a card that is free again."""

import os
import subprocess
import sys
import time

import pytest

from gputrain import JobFailedError, Local, State, Trainer, catalog
from gputrain.backends.local.offers import find_gpus
from gputrain.runtime import devices as readiness, network
from tests.patience import until

TRAINS = """
import torch
from torch import nn
from gputrain import ddp

with ddp.session(seed=0) as s:
    assert s.device.type == "cuda", s.device
    assert "cuda:nccl" in torch.distributed.get_backend_config()
    shares = torch.ones(4, device=s.device)
    torch.distributed.all_reduce(shares)
    assert shares.tolist() == [s.world_size] * 4
    inputs = torch.randn(2048, 16, generator=torch.Generator().manual_seed(0))
    dataset = torch.utils.data.TensorDataset(inputs, inputs.sin().sum(1, keepdim=True))
    model = s.wrap(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    s.register(model=model, optimizer=optimizer)
    s.log(f"begins at {s.step}")
    for step, (x, y) in s.steps(s.loader(dataset, batch_size=64), max_steps=STEPS, save_every=50):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.mse_loss(model(x.to(s.device)), y.to(s.device))
        loss.backward()
        optimizer.step()
        s.report(step=step, loss=loss)
"""
WORKS = """
import time, torch
held = torch.empty(HELD_GIB << 28, device="cuda").normal_()
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
until = time.monotonic() + SECONDS
while time.monotonic() < until:
    for _ in range(50):
        b = a @ a
    torch.cuda.synchronize()
"""
FILLS = """
import torch
def fill():
    held = []
    while True:
        held.append(torch.empty(1 << 28, device="cuda"))
fill()
"""
LOOKS_UP = """
import torch
table = torch.nn.Embedding(10, 4).cuda()
print(table(torch.tensor([11], device="cuda")).sum().item())
"""
WRITES_ASTRAY = """
import torch, triton, triton.language as tl
@triton.jit
def stray(p):
    tl.store(p + (1 << 40), 1.0)
stray[(1,)](torch.zeros(1, device="cuda"))
torch.cuda.synchronize()
"""
HOLDS = """
import signal, sys, time, torch
held = torch.empty(4 << 28, device="cuda").normal_()
def leave(*_):
    print("saving", held.sum().item(), flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
print("holds", flush=True)
while True:
    time.sleep(0.1)
"""
SPINS = """
import torch, torch.distributed as dist
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
x = torch.ones(4, device="cuda")
for _ in range(3):
    dist.all_reduce(x)
torch.cuda.synchronize()
print("spins", flush=True)
def waits_for_the_gpu():
    torch.cuda._sleep(1 << 40)
    torch.cuda.synchronize()
waits_for_the_gpu()
"""
INITS = """
import torch, torch.distributed as dist
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
dist.barrier()
print("NCCL", torch.cuda.nccl.version(), "torch", torch.__version__, "CUDA", torch.version.cuda)
dist.destroy_process_group()
"""


def memory_mib():
    asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return [int(line) for line in subprocess.check_output(asked, text=True).split()]


def started(trainer, script, word, **fields):
    """A job whose rank has said a word."""
    job = trainer.submit(script, gpu=1, **fields)
    until(lambda: any(line.message == word for line in job.logs()), shown=lambda: f"no {word!r}: {job.state}")
    return job


def failure(trainer, script):
    with pytest.raises(JobFailedError) as failed:
        trainer.run(script, gpu=1, progress="none")
    return failed.value


def test_the_cards_are_those_that_torch_sees(figure):
    ask = "import torch\nfor n in range(torch.cuda.device_count()): print(torch.cuda.get_device_name(n))"
    seen = subprocess.check_output([sys.executable, "-c", ask], text=True).splitlines()
    found = find_gpus()
    figure("cards", ", ".join(f"{name}, which is {one.kind}" for name, one in zip(seen, found)))
    assert len(found) == len(seen)
    assert all(one.memory_mib > 1024 for one in found)
    sold = {gpu.kind for gpu in catalog.gpus()}
    assert all(one.kind in sold or one.kind == name for name, one in zip(seen, found))


def test_nothing_speaks_against_a_job_here(trainer, script):
    checks = trainer.doctor(script("print(1)"), gpu=1)
    assert checks.is_ok, str(checks)


def test_a_card_may_be_named_by_its_uuid(script, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", find_gpus()[-1].uuid)
    trainer = Trainer(Local(root=tmp_path / "jobs"))
    job = trainer.submit(script("import torch; print('sees', torch.cuda.device_count())"), gpu=1)
    assert job.wait() is State.SUCCEEDED
    assert any(line.message == "sees 1" for line in job.logs())


def test_a_session_trains_with_nccl_and_goes_on_where_it_was(trainer, script, tmp_path, figure):
    saved = str(tmp_path / "saved")
    first = trainer.submit(script(TRAINS.replace("STEPS", "150")), gpu=1, checkpoint_dir=saved)
    assert first.wait() is State.SUCCEEDED, list(first.logs())
    losses = [loss for _, loss in first.metrics().series("loss")]
    assert losses[-1] < losses[0] / 2
    second = trainer.submit(script(TRAINS.replace("STEPS", "200")), gpu=1, checkpoint_dir=saved)
    assert second.wait() is State.SUCCEEDED, list(second.logs())
    assert any("begins at" in line.message for line in second.logs())
    assert min(step for step, _ in second.metrics().series("loss")) >= 150
    figure("a session of 150 steps, submit to result", f"{first.duration.total_seconds():.1f} s")


def test_what_the_driver_tells_is_what_the_script_does(trainer, script, figure):
    text = WORKS.replace("HELD_GIB", "8").replace("SECONDS", "50")
    result = trainer.run(script(text), gpu=1, progress="none")
    use = trainer.jobs()[0].metrics("gpu")
    last = {name.partition(".")[2]: use.series(name)[-1][1] for name in use.names}
    figure("gauges beside matrix products", last)
    assert last["gpu_busy"] > 90
    assert 8 * 1024 < last["gpu_memory_mib"] < 12 * 1024
    assert last["gpu_watts"] > 100
    assert 20 < last["gpu_celsius"] < 95
    assert result.gpu_busy > 0.4


def test_memory_that_runs_out_is_told_as_that(trainer, script):
    error = failure(trainer, script(FILLS))
    assert (error.kind, error.rank) == ("gpu_out_of_memory", 0)
    assert "in fill" in error.traceback
    assert "Tried to allocate" in str(error)


@pytest.mark.parametrize("text", [LOOKS_UP, WRITES_ASTRAY], ids=["assert in a kernel", "write astray"])
def test_a_script_that_breaks_its_context_is_not_a_broken_card(trainer, script, text):
    """The driver writes an Xid for it, and the card is as good as before."""
    error = failure(trainer, script(text))
    assert error.kind == "exception", str(error)
    assert "Error: CUDA error" in str(error)
    assert trainer.run(script("import torch; torch.ones(1, device='cuda').item()"), progress="none")


def test_a_cancelled_job_saves_and_frees_its_card(trainer, script, figure):
    before = memory_mib()
    job = started(trainer, script(HOLDS), "holds")
    assert max(memory_mib()) > max(before) + 4000
    began = time.monotonic()
    job.cancel()
    assert job.wait() is State.CANCELLED
    until(lambda: max(memory_mib()) <= max(before) + 100, shown=lambda: f"{memory_mib()}, before {before}")
    figure("cancel to an empty card", f"{time.monotonic() - began:.1f} s")
    assert any(line.message.startswith("saving") for line in job.logs())


def test_a_rank_that_waits_for_its_card_is_seen_from_outside(trainer, script, figure):
    before = memory_mib()
    job = started(trainer, script(SPINS), "spins", hang_timeout="10m")
    time.sleep(2.0)
    began = time.monotonic()
    stacks = job.stacks()
    figure("stacks of a rank that waits for its card", f"{time.monotonic() - began:.2f} s")
    (one,) = stacks.ranks
    assert "waits_for_the_gpu" in one.trace, str(one)
    figure("collectives that NCCL has counted", {name: dict(told) for name, told in one.recorded.items()})
    assert one.recorded["0"]["begun"] == 3
    assert "nccl" in one.recorded["0"]["name"]
    job.cancel()
    assert job.wait() is State.CANCELLED
    until(lambda: max(memory_mib()) <= max(before) + 100, shown=lambda: f"{memory_mib()}, before {before}")


def test_a_card_that_never_comes_back_ends_the_job(trainer, script):
    before = memory_mib()
    with pytest.raises(JobFailedError) as failed:
        trainer.run(script(SPINS), gpu=1, hang_timeout="15s", progress="none")
    assert failed.value.kind == "hang", str(failed.value)
    assert "waits_for_the_gpu" in failed.value.traceback
    until(lambda: max(memory_mib()) <= max(before) + 100, shown=lambda: f"{memory_mib()}, before {before}")


def test_more_ranks_than_cards_are_told_as_that(trainer, script):
    with pytest.raises(JobFailedError) as failed:
        trainer.run(script(TRAINS.replace("STEPS", "5")), gpu=1, nproc_per_node=2, progress="none")
    assert "GPU" in str(failed.value)
    assert "SessionError" in failed.value.traceback


def test_nccl_says_its_network_in_words_that_are_read(tmp_path, figure):
    environ = {
        **os.environ, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET",
        "NCCL_DEBUG_FILE": str(tmp_path / "nccl-%h-%p"),
        "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
    }  # fmt: skip
    told = subprocess.check_output([sys.executable, "-c", INITS], env=environ, text=True)
    figure("versions", told.strip())
    said = []
    watch = network.NetWatch("", 0, 2, lambda text, *_: said.append(text))
    watch.look(str(tmp_path), is_last=True)
    assert said == ["NCCL talks to other nodes by Socket"], [
        path.read_text()[:4000] for path in tmp_path.glob("nccl-*")
    ]


class Machine:
    """What a supervisor does for who waits: calls programs, and sleeps."""

    def call(self, command, within_s):
        done = subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)
        return done.returncode, done.stdout + done.stderr

    sleep = staticmethod(time.sleep)


def test_a_vm_of_these_cards_would_be_ready(figure):
    code, said = Machine().call(readiness.FABRIC, 60.0)
    figure("fabric", f"{code}: {said.strip()}")
    readiness.wait_for_gpus(Machine(), len(find_gpus()), wait_s=10.0)
