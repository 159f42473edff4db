"""Runs that waste GPUs without an error: ranks that never meet, and a torch that sees no GPU.

A script that knows nothing of process groups trains the same model on each rank. Rank 0 listens at
MASTER_PORT once it has joined one. Only on Linux can others see that.
"""

from __future__ import annotations

import sys
import threading
import time

from . import host, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Sequence

EVERY_S = 1.0
AFTER_S = 60.0
LEAST_S = 10.0
"""A run that was shorter may have met between two looks."""
LISTENS = "0A"
"""A socket's state in /proc/net/tcp."""


class Meeting:
    """Looks, on node 0, whether ranks that use torch have met, and says once that they have not."""

    def __init__(self, launcher: str, say: Callable[..., Any]) -> None:
        self._is_asked, self._say = launcher == "torchrun-env", say
        self._due, self._began, self._world, self._port, self._uses_torch = float("inf"), 0.0, 1, 0, False

    def begin(self, node_rank: int, world: int, port: int) -> None:
        """Ranks have been started."""
        self._world, self._port, self._began = world, port, time.monotonic()
        if self._is_asked and node_rank == 0 and world > 1:
            self._due = self._began + EVERY_S

    def look(self, pids: Sequence[int], is_last: bool = False) -> None:
        """Look again, and say it after a minute, or at the end."""
        now = time.monotonic()
        if self._due == float("inf") or (now < self._due and not is_last):
            return
        self._uses_torch = self._uses_torch or any(map(host.uses_torch, pids[:1]))
        self._due = now + EVERY_S
        ran_s = now - self._began
        if is_listening(self._port):
            self._due = float("inf")
        elif ran_s >= AFTER_S or (is_last and ran_s >= LEAST_S):
            self._due = float("inf")
            if self._uses_torch:
                self._say(
                    f"{self._world} ranks ran and none joined a process group: each trained its own copy."
                    " The tutorial shows how to add DDP",
                    "WARNING",
                )


def is_listening(port: int) -> bool:
    """Whether a process of this machine listens at a port; True where that cannot be seen."""
    tables = [_read(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()[1:]]
    wanted = f":{port:04X}"
    return not any(tables) or any(row[1].endswith(wanted) and row[3] == LISTENS for row in rows)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


PROBE_S = 120.0
"""How long it may take to import torch from a cold disk."""
PROBE = """
import torch
if torch.version.cuda and not torch.cuda.is_available():
    print(torch.__version__, torch.version.cuda, torch._C._cuda_getDriverVersion())
"""


class GpuCheck:
    """Asks torch once in each run, in a process beside the ranks, whether it sees the machine's GPUs.

    Where it does not, it trains on the CPU while they are paid for.
    """

    def __init__(self) -> None:
        self._why = ""

    def begin(self, environ: Mapping[str, str]) -> None:
        """Ask in the ranks' environment, if this node has GPUs."""
        self._why = ""
        if count := host.gpu_count(environ):
            threading.Thread(target=self._ask, args=(environ, count), daemon=True).start()

    def _ask(self, environ: Mapping[str, str], count: int) -> None:
        from subprocess import DEVNULL

        environ = {**environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "0"}  # NVML counts what torch cannot use, too
        try:
            found = processes.output_of([sys.executable, "-c", PROBE], PROBE_S, env=environ, stderr=DEVNULL)
        except OSError:
            return
        words = found.decode("utf-8", "replace").split()
        if len(words) == 3 and words[2].isdigit():
            driver = f"{int(words[2]) // 1000}.{int(words[2]) % 1000 // 10}"
            self._why = (
                f"torch {words[0]} of CUDA {words[1]} sees none of the {count} GPUs, whose driver runs CUDA "
                f"{driver}: it would train on the CPU. Take an image or a torch of CUDA {driver} or older"
            )

    def look(self, pids: Sequence[int]) -> str:
        """Why these ranks must not go on; empty where torch sees GPUs, or they do not use it."""
        return self._why if self._why and any(map(host.uses_torch, pids)) else ""
