"""Processes of this machine, as /proc shows them."""

import contextlib
import os
import sys

SEEING = getattr(sys, "seeing", contextlib.nullcontext)
"""Lets a test look into /proc in the interpreter of `tests.soak.portable`, where nobody else can."""


def living():
    """The words of the command line and the environment of each process that lives, by its number."""
    with SEEING():
        found = {int(pid): _seen(pid) for pid in filter(str.isdigit, os.listdir("/proc"))}
    return {pid: seen for pid, seen in found.items() if seen is not None}


def _seen(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/cmdline", "rb") as words:
            seen = words.read().split(b"\0"), environ.read()
        with open(f"/proc/{pid}/stat") as stat:
            is_dead = stat.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return None if is_dead else seen
