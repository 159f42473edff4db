"""Commands that act on the emulated machine instead of on this computer: power, units, nvidia-smi, python."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

POWER_COMMANDS = ("poweroff", "halt", "reboot", "shutdown", "systemctl", "init", "telinit")
SYSTEM_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
INSIDE = "/run/emulated-machine/bin"  # where a guest sees the folder of stand-ins, first on its PATH

NO_DOCKER = """#!/bin/sh
echo "docker: this emulated machine runs no containers; give live mode a userland that machines boot" >&2
exit 125
"""


def write(folder: Path, *, gpus: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Write the stand-ins into `folder`; which path of a guest each of them replaces.

    gpus: one mapping a GPU with `name` and `memory_mib`, what nvidia-smi will tell of.
    """
    folder.mkdir(parents=True, exist_ok=True)
    power = Path(__file__).with_name("power.sh").read_text(encoding="utf-8")
    texts = dict.fromkeys(POWER_COMMANDS, power)
    texts["nvidia-smi"] = _program("nvidia_smi.py", json.dumps(list(gpus)))
    texts["systemd-run"] = _program("systemd_run.py")
    texts["gcsfuse"] = _program("gcsfuse.py")
    texts["docker"] = NO_DOCKER
    for name, text in {**texts, "python": _PYTHON, "python3": _PYTHON}.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    replaced = {INSIDE: str(folder)}
    for name in texts:
        places = [f"{place}/{name}" for place in SYSTEM_FOLDERS if not Path(place).is_symlink()]
        replaced.update({place: str(folder / name) for place in places if Path(place).exists()})
    return replaced


_PYTHON = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'


def _program(name: str, *words: str) -> str:
    words = (sys.executable, "-I", "-S", str(Path(__file__).with_name(name)), *words)
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
