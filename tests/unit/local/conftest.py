"""Jobs of the Local backend, and a look at the processes they leave."""

import contextlib
import os
import signal
import sys
import time

import pytest

from gputrain.backends.local import Local
from gputrain.records import Code, Record
from tests.unit.steps import Steps


@pytest.fixture
def local(tmp_path):
    return Local(gpus=0, root=tmp_path / "jobs")


@pytest.fixture
def road(local):
    return Steps(local)


@pytest.fixture
def script(tmp_path):
    """Writes a script and gives its path."""

    def write(text, name="train.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(autouse=True)
def quick_limits(monkeypatch):
    """Ranks that do not listen are waited for a moment, not for half a minute."""
    monkeypatch.setenv("GPUTRAIN_GRACE", "1")


def record_of(name):
    """A record with nothing but a name, which is all that this machine looks for."""
    return Record(job_id=name, home="", spec={}, code=Code(location="", argv=()))


SEEING = getattr(sys, "seeing", contextlib.nullcontext)
"""Lets a test look into /proc in the interpreter of `tests.soak.portable`, where nobody else can."""


def processes_of(ref):
    """The processes of a job that live: its supervisor, agents, ranks and whatever those started."""
    with SEEING():
        return _processes_of(ref)


def _processes_of(ref):
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                belongs = f"GPUTRAIN_JOB_ID={ref.name}".encode() in file.read()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{pid}/stat") as file:
                is_dead = file.read().rpartition(")")[2].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if not is_dead and (belongs or os.path.join(ref.place, ref.name).encode() in words):
            found[int(pid)] = b" ".join(words).decode(errors="replace")
    return found


def one_of(ref, words):
    """The one process of a job whose command line holds ``words``."""
    found = [pid for pid, line in processes_of(ref).items() if words in line]
    assert len(found) == 1 or (found and hasattr(sys, "seeing")), found  # there each has a second, its holder
    return min(found)


def stop_all(ref):
    """Stops all processes of a job, those too that are started meanwhile; returns their numbers."""
    stopped = set()
    while running := processes_of(ref).keys() - stopped:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):  # as what only starts another ends by itself
                os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)
    return stopped


def none_left(ref, within_s=10.0):
    """Whether all processes of a job are gone, or go within so long."""
    patience = time.monotonic() + within_s
    while left := processes_of(ref):
        if time.monotonic() > patience:
            raise AssertionError(left)
        time.sleep(0.02)
    return True
