"""This machine for the contract suite."""

import os
import re
import signal
from contextlib import contextmanager

from gputrain import Local
from tests.contract.processes import Processes


class LocalRoad(Processes):
    """Jobs in a folder of their own."""

    def setup(self):
        return f"import gputrain\ntrainer = gputrain.Trainer(gputrain.Local(gpus=0, root={str(self.root)!r}))"

    def backend(self, tenant=""):
        return Local(gpus=0, root=self.root / tenant)

    def preemptible(self):
        return {"max_restarts": 1, "checkpoint_dir": str(self.root / "saved")}

    def preempt(self, job):
        """As a service manager stops what runs: each rank, by a signal; it says its number in the log."""
        for pid in re.findall(r"\bpid (\d+)", self.text(job)):
            os.kill(int(pid), signal.SIGTERM)


@contextmanager
def world(_name, folder):
    """A folder of jobs of its own."""
    yield LocalRoad(folder / "jobs")
