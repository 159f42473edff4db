"""What is looked at before a job runs on this machine."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from gputrain.backends.local.offers import NAME, LocalGpu, unmet
from gputrain.code import folder_of
from gputrain.doctor.report import Check, Checks, Probe, code, failed, ok, run_checks, unknown
from gputrain.runtime.contract import ASIDE
from gputrain.spec import TrainingSpec

_PATIENCE_S = 60.0
_LEAST_BYTES = 1 << 30
"""Logs and a checkpoint or two; below it a job is likely to end with a full disk."""
_MARK = "gputrain asks torch: "
_ASK_TORCH = f"""{ASIDE}
import json, torch
print({_MARK!r} + json.dumps([torch.__version__, torch.version.cuda, torch.cuda.device_count()]))
"""


def preflight(root: Path, gpus: Sequence[LocalGpu], spec: TrainingSpec | None) -> Checks:
    """Python, torch, GPUs and disk; with a spec, also its code and what it requires."""
    kinds = ", ".join(gpu.kind for gpu in gpus)
    things = (
        Probe(subject="torch", run=lambda: _torch(gpus)),
        Probe(subject="GPUs", run=lambda: [ok(kinds or "none: ranks run on the CPU, with gloo")]),
        Probe(subject=f"folder {root}", run=lambda: _disk(root)),
        *code(spec, installed=True),
        *(() if spec is None else (Probe(subject="requirements", run=lambda: _required(spec)),)),
    )
    return run_checks(NAME, things)


def _torch(gpus: Sequence[LocalGpu]) -> Iterator[Check]:
    """As the ranks will see it: in a process of its own, as importing torch here would never be undone."""
    try:
        words = [sys.executable, "-c", _ASK_TORCH]
        done = subprocess.run(words, capture_output=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        yield unknown(f"importing it took longer than {_PATIENCE_S:.0f} s")
        return
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        install = f"{shlex.quote(sys.executable)} -m pip install torch"
        yield failed(said[-1] if said else "it ended", install)
        return
    # Plugins and a site's own start-up file may write there, too, and leave a line open.
    answer = done.stdout.decode(errors="replace").partition(_MARK)[2]
    if not answer:
        yield unknown("its import ended the process before torch could be asked")
        return
    version, cuda, seen = json.loads(answer.splitlines()[0])
    if len(gpus) > seen:
        why = f"torch {version} sees {seen} GPUs, and nvidia-smi {len(gpus)}"
        fix = "install a torch built with CUDA that suits the driver: https://pytorch.org/get-started/locally"
        yield failed(why, fix)
    else:
        built = f"CUDA {cuda}" if cuda else "CPU"
        yield ok(f"{version}, built for {built}")


def _disk(root: Path) -> Iterator[Check]:
    there = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK | os.X_OK):
        yield failed(f"{there} cannot be written", "export GPUTRAIN_HOME=FOLDER")
    elif free < _LEAST_BYTES:
        yield failed(f"{free / 2**20:.0f} MiB are free", "export GPUTRAIN_HOME=FOLDER")
    else:
        yield ok(f"{free / 2**30:.0f} GiB are free")


def _required(spec: TrainingSpec) -> Iterator[Check]:
    missing = unmet(spec.requirements, folder_of(spec))
    if missing and find_spec("pip") is None:
        fix = f"{shlex.quote(sys.executable)} -m ensurepip"
        yield failed(f"not there, nor a pip: {', '.join(missing)}", fix)
    elif missing:
        yield ok(f"installed before the ranks start: {', '.join(missing)}")
    else:
        yield ok("all there")
