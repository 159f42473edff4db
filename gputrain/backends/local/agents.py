"""The agents of one attempt of a job, one a node. Standard library only."""

from __future__ import annotations

import time

from gputrain.entrypoint import contract, processes


class Agents:
    """The agents of one attempt: who runs, and how the others ended."""

    def __init__(self) -> None:
        self.nodes: dict[int, int] = {}
        self.endings: dict[int, processes.Ending] = {}
        self.first_ending_at = 0.0
        self.have_ranks = False

    @property
    def running(self) -> list[int]:
        """The pids of those that have not ended."""
        return [pid for pid, node in self.nodes.items() if node not in self.endings]

    def look(self) -> None:
        """Take in who has ended, and whether ranks run."""
        for pid, ending in processes.reap().items():
            if pid in self.nodes:
                self.endings[self.nodes[pid]] = ending
                self.first_ending_at = self.first_ending_at or time.monotonic()
        self.have_ranks = self.have_ranks or any(processes.has_children(pid) for pid in self.running)

    @property
    def lost(self) -> dict[int, int]:
        """The nodes whose agent a signal ended, and the signal."""
        return {node: ending.signal for node, ending in self.endings.items() if ending.signal}

    @property
    def exit_code(self) -> int:
        """Node 0's word, which is the job's verdict; an agent that was killed is a lost node."""
        code = self.endings[0].exit_code
        return contract.NODE_LOST if code is None else code
