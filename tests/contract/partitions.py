"""Somebody else's batch system for the contract suite, by the name it is installed under."""

import contextlib
import os
import signal
import time
from pathlib import Path

import gputrain_slurmlike
import pytest

from tests.contract.processes import Processes


class SlurmRoad(Processes):
    """A cluster of its own; its nodes are processes."""

    ANSWERS = False

    def __init__(self, root):
        super().__init__(root)
        self.environment = {"PYTHONPATH": str(Path(gputrain_slurmlike.__file__).parents[1])}

    def setup(self):
        return (
            "from gputrain import Trainer\nfrom gputrain_slurmlike import Slurm\n"
            f"trainer = Trainer(Slurm({str(self.root)!r}))"
        )

    def backend(self, tenant=""):
        return gputrain_slurmlike.Slurm(self.root / tenant)

    def preemptible(self):
        pytest.skip("its jobs are not started again")

    def movable(self):
        return {"gpu": "MI300X:8", "nproc_per_node": 1, "max_run_duration": "1h"}

    def exhaust(self, place):
        Path(self.root, "drained").mkdir(parents=True, exist_ok=True)
        Path(self.root, "drained", place).touch()

    def abandon(self, job):
        """Kill the process that looks after the job; its agents and ranks live on."""
        for words in (Path(f"/proc/{pid}/cmdline") for pid in self.living()):
            if "batch.py" in words.read_text() and job.id in words.read_text():
                os.kill(int(words.parent.name), signal.SIGKILL)
                with contextlib.suppress(OSError):  # until it is gone, and its lock with it
                    while words.read_bytes():
                        time.sleep(0.01)


@contextlib.contextmanager
def cluster(folder):
    yield SlurmRoad(folder / "cluster")
