"""The ranks of a job: this one's place and device, the process group, and what all of them agree on."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import zlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from gputrain.ddp.errors import SessionError
from gputrain.runtime import contract

ENTERING = "entering the session"
NAMED_RANKS = 8
"""How many ranks of those that do the same are named."""

_FIX = "start it by torchrun or gputrain (`python -m gputrain.entrypoint -- train.py`)"
_NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Place(NamedTuple):
    """This process among the ranks, counted as torchrun counts them."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1


def place_in(env: Mapping[str, str]) -> Place:
    """The place the environment gives this process; without any launcher, the only rank of a world of one.

    Example:
        >>> place_in({}).world_size
        1
    """
    missing = [name for name in _NEEDED if not env.get(name)]
    if not missing:
        rank, local_rank, world_size = (int(env[name]) for name in _NEEDED[:3])
        return Place(rank, local_rank, world_size, int(env.get("LOCAL_WORLD_SIZE") or world_size))
    if env.get("LOCAL_RANK") or env.get("WORLD_SIZE", "1") not in ("", "1"):
        present = [name for name in _NEEDED if name not in missing]
        raise SessionError(
            "the environment gives {} but not {}".format(", ".join(present), ", ".join(missing)),
            why="a rank cannot guess its place; Vertex AI's own RANK and WORLD_SIZE count machines",
            fix=_FIX,
        )
    return Place()


def checkpoint_dir_in(env: Mapping[str, str]) -> str | None:
    """The checkpoint directory that the job around us names, as a path; None if it names none.

    Vertex AI gives `gs://bucket/path` and mounts buckets under /gcs.
    Source: custom training, code requirements, read 2026-11-20.

    Example:
        >>> checkpoint_dir_in({"GPUTRAIN_CHECKPOINT_DIR": "/data/run-1"})
        '/data/run-1'
    """
    named = env.get(contract.CHECKPOINT_DIR) or env.get("AIP_CHECKPOINT_DIR") or None
    if named is None or not named.startswith("gs://"):
        return named
    if not os.path.isdir("/gcs"):
        raise SessionError(
            f"{named} is a bucket, and no buckets are mounted here",
            fix=f"mount the bucket with gcsfuse and set {contract.CHECKPOINT_DIR} to the path",
        )
    return "/gcs/" + named[len("gs://") :]


def choose_device(place: Place, wanted: str | None, is_bare: bool = False) -> Any:
    """This rank's own GPU where there are GPUs (made the current one), else the CPU.

    Apple's GPU (MPS) is taken by a rank that is alone: no process group carries its tensors.
    "cpu" leaves the GPUs alone; "cuda" and "mps" have one or fail; None takes them.
    """
    import torch

    if wanted not in (None, "cpu", "cuda", "mps"):
        raise SessionError(f"device={wanted!r} is not known", fix='use "cpu", "cuda", "mps" or None')
    gpus = 0 if wanted == "cpu" else torch.cuda.device_count()
    check_gpus(place, gpus, is_bare)
    if gpus and wanted != "mps":
        device = torch.device("cuda", place.local_rank)
        torch.cuda.set_device(device)  # first of all: NCCL and every .cuda() follow it
        return device
    if wanted in (None, "mps") and place.world_size == 1 and torch.backends.mps.is_available():
        return torch.device("mps")
    if wanted == "mps":
        raise SessionError(
            'device="mps" cannot be had',
            why="torch sees none here, or other ranks are here too: no process group carries its tensors",
            fix="train on one rank of a Mac, or use device=None",
        )
    if wanted == "cuda":
        raise SessionError("no GPU is visible to torch", fix="use device=None to fall back to the CPU")
    return torch.device("cpu")


def check_gpus(place: Place, gpus: int, is_bare: bool = False) -> None:
    """Refuse more ranks than GPUs, and a bare start on a Vertex AI machine of several GPUs."""
    ranks = max(place.local_world_size, place.local_rank + 1)
    if gpus and ranks > gpus:
        raise SessionError(
            "{} ranks on this machine, but torch sees {} GPU{}".format(ranks, gpus, "s" * (gpus != 1)),
            why="two ranks on one GPU deadlock in NCCL",
            fix=f'set nproc_per_node={gpus}, or session(device="cpu")',
        )
    if is_bare and gpus > 1:
        raise SessionError(
            f"this script was started bare on a Vertex AI machine of {gpus} GPUs",
            why="LOCAL_RANK is missing; one process would use one GPU and leave the others idle",
            fix=_FIX,
        )


def join(place: Place, device: Any, timeout_s: float) -> bool:
    """Make the default process group; False where the script has made one, which is used and left alone."""
    import torch.distributed as dist

    if dist.is_initialized():
        return False
    options: Any = {"timeout": timedelta(seconds=timeout_s), "rank": place.rank}
    if place.world_size == 1:
        options["store"] = dist.HashStore()  # needs no port
    backend = "gloo"
    if device.type == "cuda":
        backend, options["device_id"] = "cpu:gloo,cuda:nccl", device
    try:
        dist.init_process_group(backend, world_size=place.world_size, **options)
    except RuntimeError as error:  # all that torch raises of networks and stores
        at = "{}:{}".format(os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
        raise SessionError(
            f"rank {place.rank} of {place.world_size} could not meet the others at {at}",
            why=str(error),
            fix="read what the other ranks wrote; where none has failed, see that all of them reach that "
            "address, and that nothing else holds the port there",
        ) from error
    return True


class Peers:
    """The ranks of this job, reached over a gloo group of their own; a world of one needs no group.

    Every method is collective: all ranks call it, in the same order, and name by `doing` what for. Ranks that
    are apart learn so at once, and who does what; gloo would mix up their data, and abort.

    Raises:
        SessionError: the ranks are not at the same; or one of them is gone, or did not come in time.

    Example:
        >>> Peers().gather("a word", "talking")
        ['a word']
    """

    def __init__(self, rank: int = 0, world_size: int = 1, group: Any = None) -> None:
        self.rank = rank
        self.world_size = world_size
        self.group = group

    @classmethod
    def joined(cls, timeout_s: float) -> Peers:
        """All ranks over a new gloo group, as threads never share one. Collective."""
        import torch.distributed as dist

        rank, world_size, group = dist.get_rank(), dist.get_world_size(), None
        if world_size > 1:
            with _reaching(rank, ENTERING):
                group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s))
        return cls(rank, world_size, group)

    def any(self, flag: bool, doing: str) -> bool:
        """True on every rank if any rank passes True."""
        if self.world_size == 1:
            return flag
        import torch
        import torch.distributed as dist

        place = zlib.crc32(doing.encode())
        values = torch.tensor([int(flag), place, -place], device="cpu")
        with _reaching(self.rank, doing):
            dist.all_reduce(values, op=dist.ReduceOp.MAX, group=self.group)
        is_any, highest, lowest = values.tolist()
        if highest == -lowest:
            return bool(is_any)
        ranks_at: dict[str, list[int]] = {}
        for rank, of_rank in enumerate(self._gathered(doing, doing)):
            ranks_at.setdefault(of_rank, []).append(rank)
        raise SessionError(
            "the ranks are apart: " + "; ".join(f"{_named(ranks)} {at}" for at, ranks in ranks_at.items()),
            why="each of these is for all ranks together; else they would wait for each other for ever",
            fix="let all ranks call the same, equally often: not below `if s.is_main`, not in loops that "
            "end earlier on some",
        )

    def barrier(self, doing: str) -> None:
        """Return once every rank is here."""
        self.any(False, doing)

    def gather(self, value: Any, doing: str) -> list[Any]:
        """The values of all ranks, by rank, on every rank."""
        self.barrier(doing)
        return self._gathered(value, doing)

    def agree(self, settings: dict[str, Any], doing: str) -> None:
        """Refuse settings that differ among ranks: without a checkpoint directory one would hang a save."""
        of_ranks = self.gather(settings, doing)
        for name in dict.fromkeys(name for of_rank in of_ranks for name in of_rank):
            values = [of_rank.get(name, "none") for of_rank in of_ranks]
            odd = next((rank for rank, value in enumerate(values) if value != values[0]), None)
            if odd is not None:
                raise SessionError(
                    f"the ranks do not agree on {name}: rank 0 has {values[0]}, rank {odd} has {values[odd]}",
                    why="every rank has to train, save, resume and stop in step with the others",
                    fix="give all nodes the same environment and arguments",
                )

    def _gathered(self, value: Any, doing: str) -> list[Any]:
        if self.world_size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.world_size
        with _reaching(self.rank, doing):
            dist.all_gather_object(values, value, group=self.group)
        return values


@contextlib.contextmanager
def _reaching(rank: int, doing: str) -> Iterator[None]:
    """Say what a rank was at when it lost a peer, for which torch raises a RuntimeError of any text."""
    try:
        yield
    except RuntimeError as error:
        raise SessionError(
            f"rank {rank} was {doing}, and another rank is gone or did not come in time",
            why=str(error),
            fix="read what the other ranks wrote: one that failed says why itself; where one is only slow, "
            "raise session(timeout_s=...)",
        ) from error


def _named(ranks: list[int]) -> str:
    """
    >>> _named([0]), _named([1, 2])
    ('rank 0 is', 'ranks 1, 2 are')
    """
    names = ", ".join(map(str, ranks[:NAMED_RANKS])) + ", ..." * (len(ranks) > NAMED_RANKS)
    return f"rank {names} is" if len(ranks) == 1 else f"ranks {names} are"


class Stop:
    """Whether the job is asked to stop, agreed by all ranks so that all of them save the same step.

    SIGTERM reaches the ranks in different steps. Its handler only sets a flag, so that a save can finish.

    Args:
        every: agree at every n-th step only; in between the answer is False, without any communication.
    """

    def __init__(self, peers: Peers, every: int = 1) -> None:
        self._peers, self._every = peers, every
        self._questions = 0
        self._previous: Any = None
        self.asked = self.agreed = False

    def listen(self) -> None:
        """Handle SIGTERM; outside the main thread Python allows no handlers."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._note)

    def unlisten(self) -> None:
        """Restore the handler of SIGTERM."""
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)

    def should_stop(self, step: int | None = None) -> bool:
        """True on every rank once any was asked to stop. Collective; without a step, questions count."""
        self._questions += 1
        count = self._questions if step is None else step
        if not self.agreed and count % self._every == 0:
            self.agreed = self._peers.any(self.asked, "asking whether to stop")
        return self.agreed

    def _note(self, _signal: int, _frame: Any) -> None:
        self.asked = True
