"""Ranks for tests: real processes, forked from a server that has torch loaded, so that four start at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import runpy
import secrets
import signal
import socket
import sys
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["torch", "torch._dynamo", "torch.distributed", "gputrain.ddp"])


@dataclass
class Gang:
    """The ranks of one run; each writes into its own log."""

    processes: list[BaseProcess]
    logs: list[Path]

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to one rank, if it is still there."""
        if self.processes[rank].is_alive():
            os.kill(self.processes[rank].pid or 0, number)

    def wait(self, timeout_s: float = 60.0) -> list[int]:
        """Exit codes by rank, -n for signal n; after a failure the others get two seconds."""
        give_up = time.monotonic() + timeout_s
        while self.is_alive():
            multiprocessing.connection.wait([p.sentinel for p in self.processes if p.is_alive()], timeout=0.2)
            if any(process.exitcode not in (None, 0, 75) for process in self.processes):
                give_up = min(give_up, time.monotonic() + 2.0)
            if time.monotonic() > give_up:
                self.end()
        for process in self.processes:
            process.join()
        return [process.exitcode or 0 for process in self.processes]

    def is_alive(self) -> bool:
        """Whether any rank is left."""
        return any(process.is_alive() for process in self.processes)

    def end(self) -> None:
        """Kill whatever is left."""
        for process in self.processes:
            process.kill()

    def log(self, rank: int = 0) -> str:
        """What a rank has written so far."""
        return self.logs[rank].read_text() if self.logs[rank].exists() else ""


def start(
    script: str | Path,
    *args: str,
    ranks: int,
    logs: Path,
    env: dict[str, str] | None = None,
) -> Gang:
    """Start a script on several ranks with the environment that torchrun would give them."""
    logs.mkdir(parents=True, exist_ok=True)
    port = free_port()
    gang = Gang([], [logs / f"rank-{rank}.log" for rank in range(ranks)])
    for rank in range(ranks):
        place = _place(rank, ranks, port)
        process = _server.Process(
            target=_run, args=(str(script), args, {**place, **(env or {})}, str(gang.logs[rank])), daemon=True
        )
        process.start()
        gang.processes.append(process)
    return gang


def _place(rank: int, ranks: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def free_port() -> int:
    """A port that nobody listens on now, below those that outgoing connections are given meanwhile."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", 20_000 + secrets.randbelow(12_000)))
            port: int = probe.getsockname()[1]
            return port


def _run(script: str, args: tuple[str, ...], env: dict[str, str], log: str) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    torch.set_num_threads(1)
    os.environ.update(env)
    sys.argv = [script, *args]
    runpy.run_path(script, run_name="__main__")
