"""Runs one job: an agent a node, until all have ended, somebody says stop, or its time is over.

Standard library only; it lives on when the client that started it ends.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

LOOK_EVERY_S = 0.05
LAST_WORDS_S = 5.0
"""After the agents' own grace, before they are killed."""


def write(path: Path, document: dict) -> None:
    """Write a document that appears whole."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document))
    fresh.rename(path)


class Batch:
    """One job, from its first agent to its last state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.order = json.loads((folder / "order.json").read_text())
        self.state = {"state": "provisioning", "detail": "", "agents": [], "exit_code": None}

    def tell(self, **news: object) -> None:
        """Write what is new."""
        self.state.update(news)
        write(self.folder / "state.json", self.state)

    def run(self) -> None:
        """Start, watch, and say how it ended."""
        agents = [self.start(node) for node in self.order["nodes"]]
        started = time.time()
        self.tell(state="running", started_at=started, agents=[identity(one.pid) for one in agents])
        why = self.watch(agents, started + self.order["max_run_s"])
        code = agents[0].returncode
        state = "succeeded" if code == 0 else why or "failed"
        detail = "max_run_duration is over" if state == "expired" else ""
        code = 128 - code if code < 0 else code
        self.tell(state=state, detail=detail, exit_code=code, ended_at=time.time())

    def start(self, node: dict) -> subprocess.Popen:
        """One node's agent, whose lines go to a file of its own."""
        with open(self.folder / f"node-{node['rank']}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, self.order["agent"], "--", *node["argv"]],
                env={**os.environ, **node["env"]},
                cwd=self.order["location"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def watch(self, agents: list, deadline: float) -> str:
        """Until all have ended; why they were told to, if they were."""
        why, kill_at = "", float("inf")
        while any(agent.poll() is None for agent in agents):
            if not why:
                why = "expired" if time.time() > deadline else ""
                why = "cancelled" if (self.folder / "cancel").exists() else why
                if why:
                    kill_at = time.time() + self.order["grace_s"] + LAST_WORDS_S
                    for agent in agents:
                        agent.terminate()
            if (self.folder / "kill").exists():
                why, kill_at = why or "cancelled", 0
            if time.time() > kill_at:
                for agent in agents:
                    agent.kill()
            time.sleep(LOOK_EVERY_S)
        return why


def identity(pid: int) -> list:
    """A process's number and when it began, since numbers come again."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return [pid, ""]
    return [pid, "" if fields[0] == "Z" else fields[19]]


def main() -> None:
    """The job in the folder ``sys.argv[1]``; whoever holds the file ``sys.argv[2]`` looks after it."""
    if os.fork():
        os._exit(0)  # the client goes on at once; nobody waits for the child
    os.set_inheritable(int(sys.argv[2]), False)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    batch = Batch(Path(sys.argv[1]))
    try:
        batch.run()
    except BaseException:
        batch.tell(state="failed", detail=traceback.format_exc(limit=-2), ended_at=time.time())
        raise


if __name__ == "__main__":
    main()
