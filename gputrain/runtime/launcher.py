"""The ranks of this node: what each is started with, how they are asked to stop, killed and reaped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import contract, host, processes
from .failures import explain, node_cause
from .logs import LogForwarder
from .network import in_brackets
from .options import Options
from .processes import Rank

Document = dict[str, Any]


_START = "sys.path.insert(0, sys.argv.pop(1)); from gputrain.runtime.rank import main; main()"

PROFILE_S = 60.0
"""How long such a script may take."""


class NodePlace:
    """Where this node's ranks stand in the job: `nodes` has address, port and number of ranks of each."""

    def __init__(self, node_rank: int, nodes: Sequence[Mapping[str, Any]]) -> None:
        counts = [int(node["nproc"]) for node in nodes]
        self.node_rank = node_rank
        self.num_nodes = len(nodes)
        self.nproc = counts[node_rank]
        self.base_rank = sum(counts[:node_rank])
        self.world_size = sum(counts)
        self.addrs = [str(node["addr"]) for node in nodes]
        self.ports = [int(node["port"]) for node in nodes]


def rank_command(options: Options) -> list[str]:
    """The command line that every rank of this node runs."""
    target = options.target
    if target.kind == "program":
        return target.argv
    words = ["-m", *target.argv] if target.kind == "module" else target.argv
    return [sys.executable, "-c", contract.ASIDE + _START, package_root(), *words]


def rank_environments(
    options: Options, place: NodePlace, environ: Mapping[str, str], error_dir: str
) -> list[dict[str, str]]:
    """The environment of each process of this node, by local rank."""
    base = {name: value for name, value in environ.items() if name != contract.RUN_DIR}
    base.update(network_profile(base))
    base.update(options.for_ranks())
    base[contract.NUM_NODES] = str(place.num_nodes)
    base[contract.NODE_RANK] = str(place.node_rank)
    own_ranks = options.nproc_per_node or host.gpu_count(os.environ) or 1  # of a program that starts them
    base[contract.NPROC_PER_NODE] = str(place.nproc if options.starts_ranks else own_ranks)
    base[contract.MASTER_ADDR] = place.addrs[0]
    base[contract.MASTER_PORT] = str(place.ports[0])
    if all(place.addrs):
        base[contract.NODE_ADDRS] = ",".join(place.addrs)
    root = package_root()
    if os.path.isfile(root):  # a zipapp holds gputrain alone, so it can shadow nothing else on the path
        base["PYTHONPATH"] = os.pathsep.join(filter(None, [root, base.get("PYTHONPATH", "")]))
    base.setdefault("PYTHONUNBUFFERED", "1")
    if options.hang_timeout is not None:
        for name in contract.FLIGHT_RECORDER[: 1 if _torch_version() >= (2, 9) else None]:
            base.setdefault(name, contract.FLIGHT_ENTRIES)
    if options.starts_ranks:
        threads = host.cpu_count() // (options.nproc_per_node or place.nproc)
        base.setdefault("OMP_NUM_THREADS", str(max(1, threads)))
    if options.launcher == "tensorflow":
        base["TF_CONFIG"] = _tf_config(place)
    own = place.addrs[place.node_rank]
    is_known = all(place.addrs) or not own.startswith("127.")  # a machine's own name may mean a loopback
    interface = host.interface_of(own) if is_known and (place.num_nodes > 1 or ":" in own) else ""
    if interface:  # gloo would tell its peers what this machine's name means here: nothing, or a loopback
        base.setdefault("GLOO_SOCKET_IFNAME", interface)
    envs = [{**base, **_of_rank(options, place, local, error_dir)} for local in range(place.nproc)]
    if place.num_nodes > 1 and not {"NCCL_DEBUG", "NCCL_DEBUG_FILE"} & base.keys():  # else the user asks
        path = os.path.join(error_dir, "nccl-%h-%p")
        envs[0].update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=path)
    return envs


def _torch_version() -> tuple[int, ...]:
    """Of this Python; nothing where it has no torch, or one of its own numbering."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
        return tuple(int(part) for part in metadata.version("torch").split(".")[:2])
    return ()


def _of_rank(options: Options, place: NodePlace, local_rank: int, error_dir: str) -> dict[str, str]:
    error_file = os.path.join(error_dir, f"error-{local_rank}.json")
    own = {contract.ERROR_FILE: error_file, "TORCHELASTIC_ERROR_FILE": error_file}
    if not options.starts_ranks:
        return own
    rank = str(place.base_rank + local_rank)
    world = str(place.world_size)
    own.update(
        RANK=rank,
        LOCAL_RANK=str(local_rank),
        WORLD_SIZE=world,
        LOCAL_WORLD_SIZE=str(place.nproc),
        GROUP_RANK=str(place.node_rank),
        GROUP_WORLD_SIZE=str(place.num_nodes),
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
    workers = [f"{in_brackets(addr)}:{port}" for addr, port in zip(place.addrs, place.ports)]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": place.node_rank}})


def package_root() -> str:
    """The folder or zipapp that this gputrain was imported from."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def network_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """What Google's NCCL profile sets, for the plugin in NCCL_LIB_DIR; the user's own values stay."""
    plugin, found = environ.get("NCCL_LIB_DIR", ""), _profile(environ)
    libraries = found.get("LD_LIBRARY_PATH", environ.get("LD_LIBRARY_PATH", ""))
    if os.path.isdir(plugin) and plugin not in libraries.split(os.pathsep):
        found["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [plugin, libraries]))
    return found


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
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
    """A new folder of this user alone, in the job's own if any, for the ranks' error documents."""
    name = f"{contract.ERROR_FOLDER}{os.getpid()}-{os.urandom(6).hex()}"
    path = os.path.join(os.path.abspath(results), name)
    with contextlib.suppress(OSError):
        if results:
            os.mkdir(path, 0o700)
            return path
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", name)  # noqa: S108
    os.mkdir(path, 0o700)
    return path


LAST_WORDS_S = 0.5
"""How long a rank's end waits for the last lines it wrote; a child of it may hold its pipes open."""


class Workers:
    """All ranks of one node in one run; `on_end` takes each that has ended, and why."""

    def __init__(
        self,
        options: Options,
        node_rank: int,
        logs: LogForwarder,
        on_end: Callable[[Rank, Document | None], None],
    ) -> None:
        self.ranks: list[Rank] = []
        self.folder = ""
        self.environ: Mapping[str, str] = {}
        """Of its first rank."""
        self._options = options
        self._node_rank = node_rank
        self._logs = logs
        self._on_end = on_end
        self._not_ours = set(host.children_of(os.getpid()))
        self._kill_at = self._stuck_at = float("inf")
        self._oom_kills: int | None = None

    @property
    def are_running(self) -> bool:
        """Whether any rank has been started and not reaped."""
        return any(rank.is_running for rank in self.ranks)

    @property
    def have_ended(self) -> bool:
        """Whether the end of each rank is reported."""
        return all(rank.is_reported for rank in self.ranks)

    def start(self, place: NodePlace) -> None:
        """Start them; one that cannot be started has ended with the agent's own code for that."""
        options, problem = self._options, ""
        envs: list[dict[str, str]] = [{}] * place.nproc
        try:
            self.folder = error_folder(options.result_dir)
            envs = rank_environments(options, place, os.environ, self.folder)
        except OSError as error:
            problem = f"cannot prepare the start of ranks: {error}"
        self.environ, words = envs[0], rank_command(options)
        self._oom_kills = host.oom_kills()
        for local_rank, environ in enumerate(envs):
            rank = Rank(place.base_rank + local_rank, local_rank, environ.get(contract.ERROR_FILE, ""))
            self.ranks.append(rank)
            # Who asks torch's store before rank 0 listens asks again only 0.3 to 0.7 s later (torch 2.13).
            time.sleep(0.05 if rank.rank == 1 or (rank.rank and local_rank == 0) else 0.0)
            try:
                if options.target.kind == "script":
                    os.stat(options.target.argv[0])
                if not problem:
                    rank.start(words, environ)
                    self._logs.adopt(rank.rank, rank.stdout, rank.stderr)
            except OSError as error:
                problem = f"cannot run {options.target.argv[0]!r} in {os.getcwd()}: {error.strerror}"
            if problem:
                self._refuse(rank, problem)

    def _refuse(self, rank: Rank, message: str) -> None:
        rank.exit_code, rank.is_reported, rank.ended_at = contract.BAD_ENVIRONMENT, True, time.monotonic()
        cause = node_cause(contract.REFUSED, self._node_rank, socket.gethostname(), message)
        self._on_end(rank, {**cause, **rank.summary()})

    def tick(self) -> None:
        """Report those that have ended, and kill those that had time enough."""
        self.reap()
        self._report()
        if time.monotonic() >= self._kill_at:
            self.kill()
        if time.monotonic() >= self._stuck_at:
            self._give_up_on_stuck()

    def ask_to_stop(self, why: str, grace: float) -> None:
        """Ask all to end, and kill within the grace time those that do not."""
        for rank in self.ranks:
            rank.ask_to_stop(why)
        self._kill_at = min(self._kill_at, time.monotonic() + grace)

    def kill(self) -> None:
        """End everything in the ranks' sessions now."""
        self._kill_at, self._stuck_at = float("inf"), time.monotonic() + processes.UNKILLABLE_S
        for rank in self.ranks:
            if rank.is_running:
                rank.kill()

    def _give_up_on_stuck(self) -> None:
        """Let the job end without a rank that SIGKILL does not end."""
        for rank in self.ranks:
            if rank.is_running:
                self._logs.say(f"rank {rank.rank} cannot be killed: it is stuck in the kernel", "ERROR")
                rank.end(processes.Ending(signal.SIGKILL))
        self._stuck_at = float("inf")

    def reap(self) -> None:
        """Take in every child that ended: ranks, and orphans that were handed to us."""
        ended = processes.reap()
        for rank in (one for one in self.ranks if one.is_running and one.pid in ended):
            rank.end(ended[rank.pid])
            if rank.exit_signal:
                counts = f"its script had ended with {rank.exit_code}, which counts"
                self._logs.say(f"{rank.exit_signal} ended the exit of rank {rank.rank}: {counts}", "WARNING")
            if rank.exit_code not in (contract.DONE, contract.STOPPED):
                rank.kill()

    def _report(self) -> None:
        """Report ranks that have ended, once their last lines are in."""
        for rank in (one for one in self.ranks if one.exit_code is not None and not one.is_reported):
            if self._logs.is_silent(rank.rank) or time.monotonic() >= rank.ended_at + LAST_WORDS_S:
                rank.is_reported = True
                oom_killed = (host.oom_kills() or 0) > (self._oom_kills or 0)
                cause = explain(rank, self._node_rank, self._logs.tail(rank.rank), oom_killed)
                self._on_end(rank, cause)

    def close(self) -> None:
        """Leave no process and no file behind."""
        processes.end_children(self._not_ours, within_s=processes.ORPHANS_S)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
