"""The agent gets a script to its first step sooner than torchrun, adds nothing to a step, idles for free."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
from measure import Measure, Spread, alternated, with_byte_code

TIMED = """
step()
first = time.time()
took = []
for _ in range(200):
    began = time.perf_counter()
    step()
    took.append(time.perf_counter() - began)
each = sorted(took)[20]  # load makes some slower, and none faster
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as file:
        json.dump([first, each], file)
os._exit(0)
"""
"""The end of a script that has a ``step()``: when the first was made, and how long one takes."""

SCRIPT = """
import json, os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    model(torch.randn(32, 256)).square().mean().backward()
    optimizer.step()
"""
IDLE_S = 16.0  # a sample of what ranks and GPUs do comes every 15 s

Commands = list[tuple[list[str], dict[str, str]]]


def measure() -> Iterator[Measure]:
    """Seconds from the first exec to the end of step 1, interleaved; page cache and byte code warm."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT + TIMED)
        target = [str(script), str(Path(folder, "out"))]
        one = {"bare": bare(1, target), "entrypoint": agents(1, target), "torchrun": torchrun(1, target)}
        two = {"bare": bare(2, target), "entrypoint": agents(2, target), "torchrun": torchrun(2, target)}
        finish(one["torchrun"]())  # fills the caches
        yield from first_steps("1 node x 2 ranks", one, Path(target[1]), target_ratio=0.85)
        yield from first_steps("2 nodes x 2 ranks", two, Path(target[1]), target_ratio=0.95)
        yield from idle(folder)


def first_steps(
    shape: str, starts: dict[str, Callable[[], Commands]], out: Path, target_ratio: float
) -> Iterator[Measure]:
    steps: dict[str, list[float]] = {name: [] for name in starts}

    def first(name: str) -> float:
        began = time.time()
        finish(starts[name]())
        at, each = json.loads(out.read_text())
        steps[name].append(each)
        return at - began

    took = alternated(
        {name: lambda name=name: first(name) for name in starts}, rounds=3, least=2, warm_up=0,
        until=lambda took: took.ratio("entrypoint", "torchrun").is_clear_of(target_ratio),
    )  # fmt: skip
    ratio = took.ratio("entrypoint", "torchrun")
    yield ratio.measure(f"first step / torchrun, {shape}", target=target_ratio, note=took.note)
    least = min(steps["entrypoint"]) / min(steps["bare"])
    each = [a / b for a, b in zip(steps["entrypoint"], steps["bare"])]
    spread = attrs.evolve(Spread.of([*each, least]), value=least)
    yield spread.measure(f"best step time / bare processes, {shape}", target=1.1, note="1.0 but for noise")


def finish(commands: Commands) -> None:
    running = [subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) for command, env in commands]
    assert [process.wait() for process in running] == [0] * len(running)


def bare(nodes: int, target: list[str], each: int = 2) -> Callable[[], Commands]:
    def start() -> Commands:
        world = each * nodes
        common = {
            **environment(),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port()),
            "OMP_NUM_THREADS": "1",
        }
        ranks = [
            {"RANK": str(rank), "LOCAL_RANK": str(rank % each), "WORLD_SIZE": str(world)}
            for rank in range(world)
        ]
        return [([sys.executable, *target], {**common, **rank}) for rank in ranks]

    return start


def agents(nodes: int, target: list[str], each: int = 2) -> Callable[[], Commands]:
    def start() -> Commands:
        common = [sys.executable, "-m", "gputrain.entrypoint", f"--nproc-per-node={each}"]
        if nodes == 1:
            return [([*common, "--", *target], environment())]
        place = [f"--num-nodes={nodes}", f"--run-dir={tempfile.mkdtemp()}", "--master-addr=127.0.0.1"]
        return [
            ([*common, *place, f"--node-rank={rank}", "--", *target], environment()) for rank in range(nodes)
        ]

    return start


def torchrun(nodes: int, target: list[str], each: int = 2) -> Callable[[], Commands]:
    def start() -> Commands:
        common = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={each}"]
        if nodes == 1:
            return [([*common, "--standalone", *target], environment())]
        place = [f"--nnodes={nodes}", "--rdzv-backend=static", f"--rdzv-endpoint=127.0.0.1:{port()}"]
        return [([*common, *place, f"--node-rank={rank}", *target], environment()) for rank in range(nodes)]

    return start


def environment() -> dict[str, str]:
    return {**with_byte_code(), "OMP_NUM_THREADS": "1"}


def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def idle(folder: str) -> Iterator[Measure]:
    """What an agent uses while its ranks run."""
    script = Path(folder, "sleep.py")
    script.write_text("print('up', flush=True)\nimport time\ntime.sleep(600)\n")
    command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node=2", "--", str(script)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        agent.stdout.readline()
        before, _ = usage(agent.pid)
        time.sleep(IDLE_S)
        after, rss = usage(agent.pid)
        agent.send_signal(signal.SIGTERM)
        agent.stdout.read()
    yield Measure(what="memory of an agent whose ranks run", value=rss / (1 << 20), target=25, unit="MB")
    yield Measure(
        what="processor of an agent whose ranks run",
        value=100 * (after - before) / IDLE_S,
        target=0.5,
        unit="%",
    )


def usage(pid: int) -> tuple[float, int]:
    """Processor seconds and bytes of memory of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
