"""Worlds whose jobs are processes of this machine."""

import contextlib
import os
import re
import signal
import sys

from gputrain import Local
from tests.road import Road

SEEING = getattr(sys, "seeing", contextlib.nullcontext)
"""Lets a test look into /proc in the interpreter of `tests.soak.portable`, where nobody else can."""


class Processes(Road):
    """All that a job starts bears the folder of its world in its environment or among its words."""

    def __init__(self, root):
        self.root = root
        super().__init__()

    def living(self):
        with SEEING():
            return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_ours(pid)]

    def begun(self):
        return len(self.trainer.jobs())

    def _is_ours(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/cmdline", "rb") as words:
                seen = environ.read() + words.read()
            with open(f"/proc/{pid}/stat") as stat:
                is_dead = stat.read().rpartition(")")[2].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False
        return not is_dead and pid != os.getpid() and os.fsencode(self.root) in seen


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
