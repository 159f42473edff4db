"""A job on this machine costs little more than starting its ranks by hand, and leaves nothing behind."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, medians, wall_s, with_byte_code

from gputrain import Local, Trainer

ALL_REDUCE = """
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
assert value.item() == 2
dist.barrier()
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    file.write(repr(time.time()))
os._exit(0)
"""
PARENT = """
import json, resource, sys
from gputrain import Local, Trainer
job = Trainer(Local(gpus=0, root=sys.argv[1])).submit(sys.argv[2], nproc_per_node=2, args=[sys.argv[3]])
job.wait(progress="none")
job.result()
print(json.dumps({"name": job.ref.name, "kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""
ROUNDS = 5


def measure() -> Iterator[Measure]:
    """Submit to result of a 2-process all-reduce, interleaved with the same by hand and under torchrun."""
    os.environ.update(with_byte_code(), GLOO_SOCKET_IFNAME="lo")  # Local sets it: a fair race gives it to all
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "all_reduce.py")
        script.write_text(ALL_REDUCE)
        yield from against_others(folder, str(script))
        yield from one_client(folder, str(script))


def against_others(folder: str, script: str) -> Iterator[Measure]:
    trainer = Trainer(Local(gpus=0, root=Path(folder, "jobs")))
    unseen: list[float] = []

    def local_s() -> float:
        began = time.perf_counter()
        trainer.submit(script, nproc_per_node=2, args=[folder]).result()
        seen = time.perf_counter() - began
        unseen.append(time.time() - max(float(Path(folder, rank).read_text()) for rank in ("0", "1")))
        return seen

    def by_hand_s() -> float:
        common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port()), "WORLD_SIZE": "2"}
        began = time.perf_counter()
        words = [sys.executable, script, folder]
        ranks = [subprocess.Popen(words, env={**common, "RANK": rank}) for rank in ("0", "1")]
        assert [rank.wait() for rank in ranks] == [0, 0]
        return time.perf_counter() - began

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    runs = {"Local": local_s, "by hand": by_hand_s, "torchrun": lambda: wall_s([*torchrun, script, folder])}
    wall = medians(runs, rounds=ROUNDS)
    note = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in wall.items())
    what = "submit to result of a 2-process all-reduce"
    yield Measure(what=f"{what} / by hand", value=wall["Local"] / wall["by hand"], target=1.25, note=note)
    yield Measure(what=f"{what} / torchrun", value=wall["Local"] / wall["torchrun"], target=0.8)
    late = sorted(unseen)[len(unseen) // 2]
    yield Measure(what="last rank's last act to result", value=late, target=0.1, unit="s", note="median")


def one_client(folder: str, script: str) -> Iterator[Measure]:
    root = str(Path(folder, "jobs"))
    words = [sys.executable, "-c", PARENT, root, script, folder]
    client = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    yield Measure(what="peak memory of the client", value=client["kib"] / 1024, target=60, unit="MiB")
    left = processes_of(client["name"])
    yield Measure(
        what="processes left after job and client", value=len(left), target=0, unit="", note=str(left or "")
    )


def processes_of(name: str) -> list[str]:
    """The command lines of processes that belong to a job, a moment after its client has ended."""
    time.sleep(0.2)
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ, line = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"GPUTRAIN_JOB_ID={name}".encode() in environ or name.encode() in line:
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
