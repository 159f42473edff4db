"""What each rank is started with: its command and its environment; and which network NCCL took then between
nodes, with a warning where it is not the planned one.

A plugin that is missing is no error to NCCL: it goes by sockets, many times slower. It says so in its debug
output only, so one rank of each node writes that into a file of ours, unless the user asks for it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import sys
import time

from . import answers, contract, host, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping

    from .options import Options

_START = "sys.path.insert(0, sys.argv.pop(1)); from gputrain.entrypoint.bootstrap import main; main()"

NET_EVERY_S = 5.0
_MOST_BYTES = 1 << 20
"""Of each file of NCCL's that is read: the line comes with the first communicator."""

_SAYS = re.compile(rb"NCCL INFO (?:Using network|Assigned NET plugin) ([A-Za-z0-9_.-]+)")
"""Source: NCCL's src/plugin/net.cc of 2.18 to 2.28, and recorded runs."""

PROFILE_S = 60.0
"""How long such a script may take."""


class NodePlace:
    """Where this node's ranks stand in the job, as node 0 told at the start."""

    def __init__(self, node_rank: int, nproc: int, start: Mapping[str, Any]) -> None:
        self.node_rank = node_rank
        self.nproc = nproc
        self.base_rank = int(start["base_rank"])
        self.world_size = int(start["world_size"])
        self.addrs: List[str] = list(start["addrs"])
        self.ports: List[int] = list(start["ports"])


def processes_on_node(options: Options) -> bool:
    """Whether the node runs one process per rank, rather than one for the whole node."""
    return options.launcher == "torchrun-env" and options.agent == "builtin"


def commands(options: Options, place: NodePlace) -> List[str]:
    """The command line that every rank of this node runs."""
    target = options.target
    if target.kind == "program":
        return target.argv
    words = ["-m", *target.argv] if target.kind == "module" else target.argv
    of_rank = [sys.executable, "-c", contract.ASIDE + _START, package_root(), *words]
    return [*_torchrun(options, place), *of_rank] if options.agent == "elastic" else of_rank


def _torchrun(options: Options, place: NodePlace) -> List[str]:
    """torchrun on this node; rendezvous static, as c10d's cannot host behind Vertex's service names."""
    return [
        sys.executable,
        *contract.PROGRAM,
        "torch.distributed.run",
        f"--nnodes={len(place.addrs)}",
        f"--node-rank={place.node_rank}",
        f"--nproc-per-node={_wanted(options)}",
        "--rdzv-backend=static",
        f"--rdzv-endpoint={_bracketed(place.addrs[0])}:{place.ports[0]}",
        f"--rdzv-conf=is_host={str(place.node_rank == 0).lower()},timeout={int(options.join_timeout)}",
        f"--rdzv-id={options.job or 'gputrain'}",
        f"--local-addr={place.addrs[place.node_rank]}",
        "--max-restarts=0",
        "--no-python",
    ]


def _wanted(options: Options) -> int:
    """How many ranks a program that starts its own should start."""
    return options.nproc_per_node or host.gpu_count(os.environ) or 1


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def environments(
    options: Options, place: NodePlace, environ: Mapping[str, str], error_dir: str
) -> List[Dict[str, str]]:
    """The environment of each process of this node, by local rank."""
    base = {name: value for name, value in environ.items() if name != contract.TOKEN}
    base.update(network_profile(base))
    base.update(options.for_ranks())
    base[contract.NUM_NODES] = str(len(place.addrs))
    base[contract.NODE_RANK] = str(place.node_rank)
    base[contract.NPROC_PER_NODE] = str(place.nproc if processes_on_node(options) else _wanted(options))
    base[contract.MASTER_ADDR] = place.addrs[0]
    base[contract.MASTER_PORT] = str(place.ports[0])
    base[contract.NODE_ADDRS] = ",".join(place.addrs)
    root = package_root()
    if os.path.isfile(root):  # a zipapp holds gputrain alone, so it can shadow nothing else on the path
        base["PYTHONPATH"] = os.pathsep.join(filter(None, [root, base.get("PYTHONPATH", "")]))
    base.setdefault("PYTHONUNBUFFERED", "1")
    if options.hang_timeout is not None:
        base.update((name, value) for name, value in answers.FLIGHT_BUFFER.items() if name not in base)
    if options.launcher == "torchrun-env":
        threads = host.cpu_count() // (options.nproc_per_node or place.nproc)
        base.setdefault("OMP_NUM_THREADS", str(max(1, threads)))
    if options.launcher == "tensorflow":
        base["TF_CONFIG"] = _tf_config(place)
    own = place.addrs[place.node_rank]
    interface = host.interface_of(own) if len(place.addrs) > 1 or ":" in own else ""
    if interface:  # gloo would tell its peers what this machine's name means here: nothing, or a loopback
        base.setdefault("GLOO_SOCKET_IFNAME", interface)
    says = _asked(base, len(place.addrs), error_dir)
    return [
        {**base, **(says if local == 0 else {}), **_of_rank(options, place, local, error_dir)}
        for local in range(place.nproc)
    ]


def _of_rank(options: Options, place: NodePlace, local_rank: int, error_dir: str) -> Dict[str, str]:
    error_file = os.path.join(error_dir, f"error-{local_rank}.json")
    own = {contract.ERROR_FILE: error_file, "TORCHELASTIC_ERROR_FILE": error_file}
    if not processes_on_node(options):
        return own
    rank = str(place.base_rank + local_rank)
    world = str(place.world_size)
    own.update(
        RANK=rank,
        LOCAL_RANK=str(local_rank),
        WORLD_SIZE=world,
        LOCAL_WORLD_SIZE=str(place.nproc),
        GROUP_RANK=str(place.node_rank),
        GROUP_WORLD_SIZE=str(len(place.addrs)),
        NODE_RANK=str(place.node_rank),
        ROLE_NAME="default",
        ROLE_RANK=rank,
        ROLE_WORLD_SIZE=world,
        MASTER_ADDR=place.addrs[0],
        MASTER_PORT=str(place.ports[0]),
        TORCHELASTIC_RUN_ID=options.job or "gputrain",
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="0",
        TORCHELASTIC_USE_AGENT_STORE="False",  # rank 0 hosts the store, as nothing of torch runs in the agent
        TORCH_NCCL_ASYNC_ERROR_HANDLING=os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    )
    return own


def _tf_config(place: NodePlace) -> str:
    workers = [f"{_bracketed(addr)}:{port}" for addr, port in zip(place.addrs, place.ports)]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": place.node_rank}})


def package_root() -> str:
    """The folder or zipapp that this gputrain was imported from."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def network_profile(environ: Mapping[str, str]) -> Dict[str, str]:
    """What Google's NCCL profile of this machine sets; the user's own values stay.

    The tuning is never ours: the scripts are for the plugin beside them, which NCCL_LIB_DIR names.
    """
    own = environ.get("NCCL_LIB_DIR", "")
    first = own if os.path.isdir(own) else ""
    found = _profile(environ)
    paths = [first, found.get("LD_LIBRARY_PATH", environ.get("LD_LIBRARY_PATH", ""))]
    if first and first not in paths[1].split(os.pathsep):
        found["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    return found


def _profile(environ: Mapping[str, str]) -> Dict[str, str]:
    """What the first script sets: one given by name, gIB's (A3 Ultra, A4, A4X), TCPXO's (A3 Mega).

    Source: GoogleCloudPlatform/cluster-toolkit@1047080, AI-Hypercomputer/gpu-recipes@2e1fd5e.
    """
    tcpxo = environ.get("NCCL_LIB_DIR", ""), "/usr/local/nvidia/lib64", "/var/lib/tcpxo/lib64"
    gib = "/usr/local/gib/scripts/set_nccl_env.sh"
    scripts = [environ.get("NCCL_INIT_SCRIPT", ""), gib, *(f"{lib}/nccl-env-profile.sh" for lib in tcpxo)]
    path = next((one for one in scripts if one.startswith("/") and os.path.isfile(one)), "")
    if not path:
        return {}
    before = dict(environ)
    script = ["bash", "-c", 'source "$0" 1>&2 && exec env -0', path]
    found = processes.output_of(script, PROFILE_S, env=before, stderr=None)  # nothing of one that fails
    entries = found.decode("utf-8", "surrogateescape").split("\0")
    after = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    merged = {name: value for name, value in after.items() if name.startswith("NCCL_") and name not in before}
    old, libraries = before.get("LD_LIBRARY_PATH", ""), after.get("LD_LIBRARY_PATH", "")
    if libraries != old and old in libraries:
        merged["LD_LIBRARY_PATH"] = libraries
    return merged


def error_folder(results: str) -> str:
    """A new folder, for this user alone, in which ranks leave their error documents.

    It lies in the job's own, where there is one, and goes with that though the agent be killed.
    """
    name = f"gputrain-{os.getpid()}-{os.urandom(6).hex()}"
    if results:
        path = os.path.join(os.path.abspath(results), name)
        with contextlib.suppress(OSError):
            os.mkdir(path, 0o700)
            return path
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", name)  # noqa: S108
    os.mkdir(path, 0o700)
    return path


def head_start_s(rank: int, local_rank: int) -> float:
    """How long to wait before this rank starts: the first of a node that is not rank 0 waits a little.

    Who asks torch's store before rank 0 listens asks again only 0.3 to 0.7 s later (torch 2.13, 2026-11-21).
    """
    return 0.05 if rank == 1 or (rank and local_rank == 0) else 0.0


def _asked(environ: Mapping[str, str], num_nodes: int, folder: str) -> Dict[str, str]:
    """What the first rank of a node gets, so that NCCL says what it uses; empty where the user asks it."""
    if num_nodes == 1 or "NCCL_DEBUG" in environ or "NCCL_DEBUG_FILE" in environ:
        return {}
    path = os.path.join(folder, "nccl-%h-%p")
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": path}


class NetWatch:
    """Looks for NCCL's word. `say` takes a message, and how severe it is."""

    def __init__(self, planned: str, node_rank: int, say: Callable[..., None]) -> None:
        self._planned = planned
        self._is_first = node_rank == 0
        self._say = say
        self._look_at = float("inf")

    def begin(self, num_nodes: int) -> None:
        self._look_at = time.monotonic() + NET_EVERY_S if num_nodes > 1 else float("inf")

    def deadline(self) -> float:
        return self._look_at

    def look(self, folder: str, *, is_last: bool = False) -> None:
        """Tell what NCCL says, once it has said it. ``is_last``: the ranks have ended."""
        now = time.monotonic()
        if self._look_at == float("inf") or (now < self._look_at and not is_last):
            return
        self._look_at = now + NET_EVERY_S
        taken = _taken(folder)
        if not taken:
            return
        self._look_at = float("inf")
        if self._planned and not taken.startswith(self._planned):
            slow = " Ranks wait for each other more than they need to." if taken == "Socket" else ""
            self._say(
                f"NCCL talks to other nodes by {taken}, and {self._planned} was planned.{slow}", "WARNING"
            )
        elif self._is_first:
            planned = ", as planned" if self._planned else ""
            self._say(f"NCCL talks to other nodes by {taken}{planned}")


def _taken(folder: str) -> str:
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nccl-*"))):
        try:
            with open(path, "rb") as file:
                found = _SAYS.search(file.read(_MOST_BYTES))
        except OSError:
            continue
        if found:
            return found.group(1).decode()
    return ""
