"""Two agents of two ranks each, as real processes, struck like the forked ranks of the quick law."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.entrypoint.nodes import Cluster

NODES, RANKS_PER_NODE = 2, 2


class Agents:
    """A job of two nodes on this machine."""

    def __init__(self, script: Path, *args: str, logs: Path, checkpoints: Path) -> None:
        self._logs = logs
        logs.mkdir(parents=True)
        env = {
            "OMP_NUM_THREADS": "1",
            "GPUTRAIN_CHECKPOINT_DIR": str(checkpoints),
            "GPUTRAIN_LOG_DIR": str(logs),
        }
        nodes = Cluster(logs).start_all(script, *args, nodes=NODES, nproc=RANKS_PER_NODE, env=env)
        self._agents = [node.process for node in nodes]

    def signal(self, rank: int, number: signal.Signals) -> None:
        """SIGTERM goes to the agent of the rank's node, as platforms do; SIGKILL to the rank itself."""
        agent = self._agents[rank // RANKS_PER_NODE]
        if agent.poll() is not None:
            return
        pid = agent.pid if number == signal.SIGTERM else _rank_of(agent.pid, rank)
        if pid is not None:
            os.kill(pid, number)

    def wait(self, timeout_s: float = 120.0) -> list[int]:
        """The verdict of each rank's node, -n for signal n."""
        give_up = time.monotonic() + timeout_s
        try:
            codes = [agent.wait(give_up - time.monotonic()) for agent in self._agents]
        finally:
            for agent in self._agents:
                agent.kill()
        return [128 - code if code > 128 else code for code in codes for _ in range(RANKS_PER_NODE)]

    def is_alive(self) -> bool:
        """Whether both agents are there."""
        return all(agent.poll() is None for agent in self._agents)

    def log(self, rank: int = 0) -> str:
        """What a rank has written so far."""
        path = self._logs / f"rank-{rank}.log"
        return path.read_text() if path.exists() else ""


def _rank_of(agent: int, rank: int) -> int | None:
    for task in Path(f"/proc/{agent}/task").iterdir():
        for child in (task / "children").read_text().split():
            environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in environment:
                return int(child)
    return None
