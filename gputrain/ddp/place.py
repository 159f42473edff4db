"""Where this process stands among the ranks, and how it joins them: place, device, network, process group."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, NamedTuple, Optional

from gputrain.ddp.errors import SessionError
from gputrain.ddp.peers import Peers, reaching
from gputrain.ddp.report import notice
from gputrain.entrypoint import contract

_FIX = (
    "start the script through gputrain's entrypoint (`python -m gputrain.entrypoint -- train.py`) or torchrun"
)
ENTERING = "entering the session"
_NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Place(NamedTuple):
    """This process among the ranks, counted as torchrun counts them."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    launched: bool = False
    """False for a plain `python train.py`."""


def place_in(env: Mapping[str, str]) -> Place:
    """The place the environment gives this process; without any launcher, the only rank of a world of one.

    Example:
        >>> place_in({}).world_size
        1
    """
    present = [name for name in _NEEDED if env.get(name)]
    if len(present) == len(_NEEDED):
        return _launched(env)
    replicas = _vertex_replicas(env.get("CLUSTER_SPEC", ""))
    if replicas > 1:
        raise SessionError(
            f"this script was started bare on Vertex AI, on {replicas} replicas",
            why="LOCAL_RANK is missing, and Vertex's own RANK and WORLD_SIZE count machines, not ranks",
            fix=_FIX,
        )
    if "LOCAL_RANK" in present or ("WORLD_SIZE" in present and env["WORLD_SIZE"] != "1"):
        missing = [name for name in _NEEDED if name not in present]
        raise SessionError(
            "the environment gives {} but not {}".format(", ".join(present), ", ".join(missing)),
            why="a rank that guesses its place makes every rank wait for one that never comes",
            fix=_FIX,
        )
    return Place()


def _launched(env: Mapping[str, str]) -> Place:
    try:
        world_size = int(env["WORLD_SIZE"])
        place = Place(
            rank=int(env["RANK"]),
            local_rank=int(env["LOCAL_RANK"]),
            world_size=world_size,
            local_world_size=int(env.get("LOCAL_WORLD_SIZE") or world_size),
            launched=True,
        )
    except ValueError as error:
        raise SessionError(
            "RANK, LOCAL_RANK and WORLD_SIZE are not all numbers", why=str(error), fix=_FIX
        ) from error
    if not 0 <= place.rank < place.world_size or place.local_rank < 0:
        what = f"rank {place.rank} does not exist in a world of {place.world_size}"
        raise SessionError(what, why="ranks count from 0", fix=_FIX)
    return place


def _vertex_replicas(cluster_spec: str) -> int:
    try:
        cluster = json.loads(cluster_spec or "{}").get("cluster", {})
        return sum(len(cluster.get(pool, ())) for pool in ("workerpool0", "workerpool1"))
    except (ValueError, AttributeError, TypeError):
        return 0


def checkpoint_dir_in(env: Mapping[str, str]) -> Optional[str]:
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
            why="checkpoints are files; on Vertex AI buckets are under /gcs",
            fix=f"mount the bucket with gcsfuse and set {contract.CHECKPOINT_DIR} to the path",
        )
    return "/gcs/" + named[len("gs://") :]


def choose_device(place: Place, wanted: Optional[str], on_vertex: bool = False) -> Any:
    """This rank's own GPU where there are GPUs (made the current one), else the CPU.

    Apple's GPU (MPS) is taken by a rank that is alone: no process group carries its tensors.
    "cpu" leaves the GPUs alone; "cuda" and "mps" have one or fail; None takes them.
    """
    import torch

    gpus = 0 if wanted == "cpu" else torch.cuda.device_count()
    check_gpus(place, gpus, on_vertex)
    if wanted not in (None, "cpu", "cuda", "mps"):
        raise SessionError(f"device={wanted!r} is not known", fix='use "cpu", "cuda", "mps" or None')
    if wanted == "mps" or (wanted is None and not gpus):
        if place.world_size == 1 and torch.backends.mps.is_available():
            return torch.device("mps")
        if wanted == "mps":
            raise SessionError(
                'device="mps" cannot be had',
                why="torch sees none here, or other ranks are here too: no process group carries its tensors",
                fix="train on one rank of a Mac, or use device=None",
            )
    if not gpus:
        if wanted == "cuda":
            raise SessionError("no GPU is visible to torch", fix="use device=None to fall back to the CPU")
        return torch.device("cpu")
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)  # first of all: NCCL and every .cuda() follow it
    return device


def check_gpus(place: Place, gpus: int, on_vertex: bool) -> None:
    """Refuse more ranks than GPUs, and a bare start on a Vertex machine of several GPUs."""
    ranks = max(place.local_world_size, place.local_rank + 1)
    if gpus and ranks > gpus:
        raise SessionError(
            "{} ranks on this machine, but torch sees {} GPU{}".format(ranks, gpus, "s" * (gpus != 1)),
            why="two ranks on one GPU deadlock in NCCL",
            fix=f'set nproc_per_node={gpus}, or session(device="cpu")',
        )
    if on_vertex and not place.launched and gpus > 1:
        raise SessionError(
            f"this script was started bare on a Vertex AI machine of {gpus} GPUs",
            why="LOCAL_RANK is missing; one process would use one GPU and leave the others idle",
            fix=_FIX,
        )


def warn_of_slow_network(place: Place, device: Any) -> None:
    import torch

    if device.type == "cuda" and place.rank == 0:
        nodes = place.world_size // place.local_world_size
        told = slow_network(torch.cuda.get_device_name(device), nodes, os.environ)
        if told is not None:
            notice(told)


class World:
    """The joined ranks: the default process group and, beside it, the peers that agree over gloo.

    A process group the script has already made is used and left alone.
    """

    def __init__(self, place: Place, device: Any, timeout_s: float) -> None:
        from datetime import timedelta

        import torch.distributed as dist

        self._ours = not dist.is_initialized()
        if self._ours:
            _join(place, device, timeout_s)
        elif dist.get_world_size() != place.world_size:
            place = Place(
                dist.get_rank(), place.local_rank, dist.get_world_size(), place.local_world_size, True
            )
        self.place = place
        self._timeout = timedelta(seconds=timeout_s)
        self.peers = self.peers_beside()

    def peers_beside(self) -> Peers:
        """The same ranks over one more gloo group: threads never share one. Collective."""
        import torch.distributed as dist

        group = None
        if self.place.world_size > 1:
            with reaching(self.place.rank, ENTERING):
                group = dist.new_group(backend="gloo", timeout=self._timeout)
        return Peers(self.place.rank, self.place.world_size, group)

    def leave(self) -> None:
        """Wait for the others, then take the process group down if it was made here."""
        import torch.distributed as dist

        self.peers.barrier("leaving the session")
        if self._ours and dist.is_initialized():
            dist.destroy_process_group()

    def abandon(self) -> None:
        """Go without a word: after an exception other ranks may be gone."""
        import torch.distributed as dist

        if self._ours and self.place.world_size == 1 and dist.is_initialized():
            dist.destroy_process_group()


def _join(place: Place, device: Any, timeout_s: float) -> None:
    from datetime import timedelta

    import torch.distributed as dist

    options: Any = {"timeout": timedelta(seconds=timeout_s)}
    options.update(rank=place.rank, world_size=place.world_size)
    if place.world_size == 1:
        options["store"] = dist.HashStore()  # needs no port
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        options["device_id"] = device
    try:
        dist.init_process_group(backend, **options)
    except RuntimeError as error:  # all that torch raises of networks and stores
        at = "{}:{}".format(os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
        raise SessionError(
            f"rank {place.rank} of {place.world_size} could not meet the others at {at}",
            why=str(error),
            fix="read what the other ranks wrote; where none has failed, see that all of them reach that "
            "address, and that nothing else holds the port there",
        ) from error


def agree(peers: Peers, settings: dict[str, Any], doing: str = ENTERING) -> None:
    """Refuse settings that differ among ranks: without a checkpoint directory one would hang a save."""
    told = peers.gather(settings, doing)
    for name in dict.fromkeys(name for of_rank in told for name in of_rank):
        values = [of_rank.get(name, "none") for of_rank in told]
        odd = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if odd is not None:
            raise SessionError(
                f"the ranks do not agree on {name}: rank 0 has {values[0]}, rank {odd} has {values[odd]}",
                why="every rank has to train, save, resume and stop in step with the others",
                fix="give all nodes the same environment and arguments",
            )


_FAST = ("H100", "H200", "B200", "B300")
"""GPUs whose Google machines have GPUDirect networks (A3, A4, A4X). Source: AI Hypercomputer, 2026-11-20."""

_CHOSEN_BY = ("NCCL_NET", "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_IB_", "NCCL_CONF_FILE")
"""Variables that Google's network profiles set: gIB, TCPXO (FasTrak) and TCPX."""


def slow_network(gpu: str, nodes: int, env: Mapping[str, str]) -> Optional[str]:
    """What to tell the reader of the log when NCCL will fall back to TCP; None when all is well.

    Example:
        >>> slow_network("NVIDIA L4", 2, {}) is None
        True
    """
    has_fast_network = any(name in gpu for name in _FAST)
    if nodes < 2 or not has_fast_network or any(name.startswith(_CHOSEN_BY) for name in env):
        return None
    return (
        f"{nodes} nodes of {gpu}, but no NCCL network profile is set: gradients may travel over plain TCP, "
        "many times slower. Source the machine's profile before the command, such as "
        "/usr/local/gib/scripts/set_nccl_env.sh, and look at NCCL_DEBUG=INFO"
    )
