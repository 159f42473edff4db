"""Worlds whose jobs are processes of this machine."""

import contextlib
import os
import re
import signal

from gputrain import Local
from tests.road import Road
from tests.support import processes


class Processes(Road):
    """All that a job starts bears the folder of its world in its environment or among its words."""

    def __init__(self, root):
        self.root = root
        super().__init__()

    def living(self):
        own, ours = os.getpid(), os.fsencode(self.root)
        found = processes.living().items()
        return [pid for pid, (words, environ) in found if pid != own and ours in b" ".join([environ, *words])]

    def begun(self):
        return len(self.trainer.jobs())


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


@contextlib.contextmanager
def this_machine(folder):
    yield LocalRoad(folder / "jobs")
