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

from measure import Measure, Spread, alternated, cost_of

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
import json, sys
sys.path.insert(0, sys.argv[4])
from measure import peak_mib
from gputrain import Local, Trainer
job = Trainer(Local(gpus=0, root=sys.argv[1])).submit(sys.argv[2], nproc_per_node=2, args=[sys.argv[3]])
job.wait(progress="none")
job.result()
print(json.dumps({"name": job.id, "mib": peak_mib()}))
"""
ROUNDS = 4


def measure() -> Iterator[Measure]:
    """Submit to result of a 2-process all-reduce, interleaved with the same by hand and under torchrun."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.update(GLOO_SOCKET_IFNAME="lo")  # Local sets it: a fair race gives it to all
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
    runs = {
        "Local": local_s,
        "by hand": by_hand_s,
        "torchrun": lambda: cost_of([*torchrun, script, folder]).wall_s,
    }
    took = alternated(
        runs, rounds=ROUNDS, least=2,
        until=lambda took: took.ratio("Local", "by hand").is_clear_of(1.25)
        and took.ratio("Local", "torchrun").is_clear_of(0.8),
    )  # fmt: skip
    what = "submit to result of a 2-process all-reduce"
    yield took.ratio("Local", "by hand").measure(f"{what} / by hand", target=1.25, note=took.note)
    yield took.ratio("Local", "torchrun").measure(f"{what} / torchrun", target=0.8, note=took.note)
    yield Spread.of_times(unseen).measure("last rank's last act to result", target=0.1, unit="s")


def one_client(folder: str, script: str) -> Iterator[Measure]:
    root = str(Path(folder, "jobs"))
    words = [sys.executable, "-c", PARENT, root, script, folder, str(Path(__file__).parent)]
    client = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    yield Measure(what="peak memory of the client", value=client["mib"], target=60, unit="MiB")
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
