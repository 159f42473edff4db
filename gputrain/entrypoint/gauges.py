"""What this node's ranks and GPUs use: one line every 15 s, for programs, beside what the ranks write."""

from __future__ import annotations

import json
import os
import time

from . import contract, host
from .gpus import EVERY_S, GpuWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import selectors
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Gauges:
    """Samples while ranks run. `write` takes a line of the agent's own."""

    def __init__(self, node_rank: int, write: Callable[[bytes], None], every_s: int = EVERY_S) -> None:
        self._node_rank = node_rank
        self._write = write
        self._every_s = every_s
        self._gpus: Optional[GpuWatch] = None
        self._look_at = float("inf")
        self._sampled_at = self._cpu_s = self._busy_s = self._gpu_s = 0.0

    def begin(self, selector: selectors.BaseSelector, environ: Mapping[str, str]) -> None:
        """The ranks have been started."""
        self._gpus = GpuWatch(selector, environ, self._every_s)
        self._sampled_at = time.monotonic()
        self._look_at = self._sampled_at + self._every_s

    def deadline(self) -> float:
        """When `look` should be called at the latest."""
        return self._look_at

    def look(self, sessions: Sequence[int]) -> str:
        """Write the line that is due, of ranks with these sessions; why the machine is at fault, if so."""
        now = time.monotonic()
        if self._gpus is None or now < self._look_at:
            return ""
        self._look_at = now + self._every_s
        self._write(contract.GAUGE_MARKER.encode() + json.dumps(self._sample(now, sessions)).encode())
        return self._gpus.fault()

    def fault_now(self) -> str:
        """Why the machine is at fault, now that a rank has failed; empty where it is not."""
        return "" if self._gpus is None else self._gpus.fault_now()

    def end(self) -> None:
        """No rank runs any more."""
        self._look_at = float("inf")
        if self._gpus is not None:
            self._gpus.close()

    def _sample(self, now: float, sessions: Sequence[int]) -> Dict[str, Any]:
        assert self._gpus is not None
        passed_s, self._sampled_at = now - self._sampled_at, now
        cpu_s, pages = host.usage_of(sessions)
        # Processes that ended took their seconds with them: what is left never counts backwards.
        cores = max(0.0, cpu_s / _TICKS - self._cpu_s) / passed_s
        self._cpu_s = cpu_s / _TICKS
        gpus: List[Dict[str, float]] = [self._gpus.latest[number] for number in sorted(self._gpus.latest)]
        self._busy_s += passed_s * sum(one.get("busy", 0.0) for one in gpus) / 100
        self._gpu_s += passed_s * len(gpus)
        return {
            "time": round(time.time(), 3),
            "node": self._node_rank,
            "cpu_cores": round(cores, 3),
            "memory_mib": pages * _PAGE >> 20,
            "gpus": gpus,
            "busy_s": round(self._busy_s, 1),
            "gpu_s": round(self._gpu_s, 1),
        }
