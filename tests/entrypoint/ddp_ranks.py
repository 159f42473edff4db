"""Bodies of ranks for `test_ddp_ranks.py`; the first argument names one."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable

import torch

from gputrain import ddp
from gputrain.ddp.checkpoints import Checkpoints
from gputrain.ddp.process_group import Peers


def sums() -> None:
    with ddp.session(device="cpu") as s:
        rank = torch.tensor([float(s.rank)])
        torch.distributed.all_reduce(rank)
        s.log(f"sum {rank.item():g}", all_ranks=True)
        s.log("once")
        s.report(step=1, sum=rank)


def full_disk_on_rank_1() -> None:
    with ddp.session(device="cpu") as s:
        s.register(model=torch.nn.Linear(4, 4))
        s.save(1)
        if s.rank == 1:
            room_for_the_log = 12_000  # the random generators of rank 1 need 17,000 bytes
            resource.setrlimit(resource.RLIMIT_FSIZE, (room_for_the_log, resource.RLIM_INFINITY))
        s.save(2)


def disks_of_their_own(folder: str) -> None:
    with ddp.session(device="cpu") as s:
        peers = Peers(s.rank, s.world_size, torch.distributed.group.WORLD)
        Checkpoints(f"{folder}/node-{s.rank}", peers, seen_within_s=0.1).save(1, {}, {})


def saves_alone(*words: str) -> None:
    with ddp.session(device="cpu", timeout_s=60, async_save="async" in words) as s:
        s.register(model=torch.nn.Linear(4, 4))
        if s.rank == 0:
            s.save(1)


def apart(first: str, second: str) -> None:
    """Rank 0 does one thing, all others another."""
    with ddp.session(device="cpu", timeout_s=60) as s:
        s.register(model=torch.nn.Linear(4, 4))
        doing: dict[str, Callable[[], object]] = {
            "resume": s.resume,
            "barrier": s.barrier,
            "steps": lambda: list(s.steps(s.loader(list(range(4)), 1), max_steps=s.rank + 1)),
        }
        doing[first if s.is_main else second]()


def one_is_killed() -> None:
    with ddp.session(device="cpu", timeout_s=60) as s:
        if s.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def one_is_asked_to_stop() -> None:
    with ddp.session(device="cpu", timeout_s=60) as s:
        s.register(seen=[])
        for step, _ in s.steps(s.loader(list(range(100)), 1), epochs=1):
            if s.rank == 1 and step == 3:
                os.kill(os.getpid(), signal.SIGTERM)


def one_never_enters() -> None:
    if os.environ["RANK"] == "0":
        with ddp.session(device="cpu", timeout_s=2):
            pass


def other_models() -> None:
    with ddp.session(device="cpu", timeout_s=60) as s:
        s.wrap(torch.nn.Linear(4, 4 + s.rank), strategy="fsdp")


def settings_of_their_own() -> None:
    with ddp.session(device="cpu", exact_resume=os.environ["RANK"] == "1"):
        pass


def save_or_resume(*words: str) -> None:
    with ddp.session(device="cpu") as s:
        seen: list[int] = []
        mine = torch.zeros(1)
        s.register(seen=seen)
        done = s.resume(allow_world_size_change="any-world" in words)
        mine += s.rank
        for _, batch in s.steps(
            s.loader(list(range(12)), 1, shuffle=False), max_steps=done + 2, save_every=1
        ):
            seen += batch.tolist()
        s.log(f"resumed {done}, saw {seen}", all_ranks=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
