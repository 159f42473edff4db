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

# Nothing here reaches for a signal, a socket or a system call of power: one word goes into a FIFO of the
# machine itself, and where there is no such FIFO there is nothing to switch off.
POWER = """#!/bin/sh
switch=/run/emulated-machine/power
scheduled=/run/emulated-machine/scheduled
name=${0##*/}
word= delay=0
if [ "$name:$1" = systemctl:is-active ]; then
    for each in "$@"; do unit=${each%.service}; done
    read -r pid _ 2>/dev/null < "/run/emulated-machine/units/$unit" && [ -d "/proc/$pid" ]
    exit
fi
case $name in
    poweroff|halt) word=poweroff ;;
    reboot) word=reboot ;;
    shutdown) word=poweroff delay=60 ;;
esac
for each in "$@"; do
    case $name:$each in
        systemctl:poweroff|systemctl:halt|init:0|telinit:0) word=poweroff ;;
        systemctl:reboot|systemctl:kexec|init:6|telinit:6) word=reboot ;;
        shutdown:-r|shutdown:--reboot) word=reboot ;;
        shutdown:-c) word=cancel ;;
        shutdown:now|shutdown:+0) delay=0 ;;
        shutdown:+[0-9]*) delay=$((${each#+} * 60)) ;;
    esac
done
if [ ! -p "$switch" ] || [ -z "$word" ]; then
    echo "System has not been booted with systemd as init system (PID 1). Can't operate." >&2
    exit 1
fi
if [ "$word" = cancel ]; then
    [ -f "$scheduled" ] && kill "$(cat "$scheduled")" 2>/dev/null
    rm -f "$scheduled"
elif [ "$delay" = 0 ]; then
    echo "$word" > "$switch"
else
    (sleep "$delay"; echo "$word" > "$switch") > /dev/null 2>&1 &
    echo $! > "$scheduled"
fi
"""


NO_DOCKER = """#!/bin/sh
echo "docker: this emulated machine runs no containers; give live mode a userland that machines boot" >&2
exit 125
"""


def write(folder: Path, *, gpus: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Write the stand-ins into `folder`; which path of a guest each of them replaces.

    gpus: one mapping a GPU with `name` and `memory_mib`, what nvidia-smi will tell of.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = dict.fromkeys(POWER_COMMANDS, POWER)
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
