"""A world whose jobs are processes of this machine."""

import contextlib
import os
import sys

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
