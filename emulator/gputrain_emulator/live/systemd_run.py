"""The systemd-run of a machine that only stands in for one, a program of its own: a transient unit.

It knows the words that start a service in the background and what changes how that one ends; any other is
refused. Process 1 of the machine finds the unit by a file, and stops it as systemd does: SIGTERM to its first
process alone, and time to end.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import signal
import sys
from collections.abc import Sequence

UNITS = "/run/emulated-machine/units"
CONSOLE = "/dev/console"
LIMITS = {"LimitNOFILE": resource.RLIMIT_NOFILE, "LimitMEMLOCK": resource.RLIMIT_MEMLOCK}
TAKEN = ("After", "Description", "KillMode", "OOMPolicy", "StandardError", "StandardOutput", "TasksMax")
"""Properties of which nothing follows here: `mixed` is the one way of killing, the console the one output."""

OWN = ("HOME", "LOGNAME", "SHELL", "USER")
"""Variables of the caller that a unit does not see."""


class Refusal(Exception):
    """What the person who asked is told."""


class Unit:
    """What was asked for."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.name, self.stop_s, self.folder = "", 90.0, "/"
        self.at_failure = "none"
        self.stop_post: list[str] = []
        self.limits: dict[int, int] = {}
        self.environment = {name: value for name, value in os.environ.items() if name not in OWN}
        left = list(arguments)
        while left and left[0].startswith("-"):
            word, is_joined, value = left.pop(0).partition("=")
            if word in ("--collect", "--quiet"):
                continue
            self._take(word, value if is_joined else left.pop(0))
        self.argv = left
        if not self.name or not self.argv:
            raise Refusal("--unit= and a command are wanted here")

    def _take(self, word: str, value: str) -> None:
        name, _, setting = value.partition("=")
        if word == "--unit":
            self.name = value.removesuffix(".service")
        elif word in ("--setenv", "-E"):
            self.environment[name] = setting
        elif word == "--working-directory" or (word, name) == ("-p", "WorkingDirectory"):
            self.folder = setting or value
        elif (word, name) == ("-p", "TimeoutStopSec"):
            self.stop_s = float(setting)
        elif (word, name) == ("-p", "ExecStopPost"):
            self.stop_post = shlex.split(setting)
        elif (word, name) == ("-p", "FailureAction") and setting in ("none", "poweroff"):
            self.at_failure = setting
        elif word == "-p" and name in LIMITS:
            self.limits[LIMITS[name]] = (
                resource.RLIM_INFINITY if setting == "infinity" else int(setting.split(":")[0])
            )
        elif word != "-p" or name not in TAKEN:
            raise Refusal(f"an emulated machine does not know systemd-run {word} {name}")

    def start(self) -> int:
        """Start it in the background, once; the exit status of systemd-run."""
        os.makedirs(UNITS, exist_ok=True)
        path = os.path.join(UNITS, self.name)
        if _lives(path):
            raise Refusal(f"Unit {self.name}.service was already loaded or has a fragment file.")
        begin, began = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(began)
            os.read(begin, 1)  # until its file is written
            self._become()
        with open(path, "w") as file:
            file.write(f"{child} {self.stop_s} {self.at_failure}\n")
        os.close(began)
        print(f"Running as unit: {self.name}.service", file=sys.stderr)
        return 0

    def _become(self) -> None:
        os.setsid()
        for kind, wanted in self.limits.items():
            hard = resource.getrlimit(kind)[1]
            most = wanted if hard == resource.RLIM_INFINITY or 0 <= wanted <= hard else hard
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(kind, (most, most))
        os.chdir(self.folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        console = os.open(CONSOLE, os.O_WRONLY)
        os.dup2(console, 1)
        os.dup2(console, 2)
        if not self.stop_post:
            os.execvpe(self.argv[0], self.argv, self.environment)  # noqa: S606 - the words are nobody's shell's
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        main = os.posix_spawnp(self.argv[0], self.argv, self.environment, setsid=True, setsigmask=())
        signal.signal(signal.SIGTERM, lambda *_: os.kill(main, signal.SIGTERM))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        code = os.waitstatus_to_exitcode(os.waitpid(main, 0)[1])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        after = os.posix_spawnp(self.stop_post[0], self.stop_post, self.environment)
        failed = os.waitpid(after, 0)[1] != 0
        os._exit(1 if failed else code if code >= 0 else 128 - code)


def _lives(path: str) -> bool:
    try:
        with open(path) as file:
            return os.path.exists("/proc/" + file.read().split()[0])
    except OSError:
        return False


def main(arguments: Sequence[str]) -> int:
    """Do what systemd-run does; its exit status."""
    try:
        return Unit(arguments).start()
    except Refusal as refusal:
        print(f"Failed to start transient service unit: {refusal}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
