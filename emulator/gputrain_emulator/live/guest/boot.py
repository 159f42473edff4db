"""What runs in an emulated machine: a virtual machine's scripts at every boot, or a container's command."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import Any

EXIT_POWEROFF = 0
EXIT_REBOOT = 3
POWER_FIFO = "/run/emulated-machine/power"
CONSOLES = ("/dev/ttyS0", "/dev/console")
RUNNER = "google_metadata_script_runner"
SCRIPTS = "/run/metadata-scripts"
UNITS = "/run/emulated-machine/units"
CLEAN = (0, 129, 130, 141, 143)  # what systemd takes for no failure: 0, SIGHUP, SIGINT, SIGPIPE, SIGTERM
LONGEST = 65_536  # bytes of a line with its end that Google's runner reads: the limit of Go's bufio.Scanner


class Processes:
    """The children of process 1: start, reap, end in order."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.environment: dict[str, str] = config["environment"]
        self.stop_grace_s: float = config["stop_grace_s"]
        self.walls: bool = config["walls"]
        self.exits: dict[int, int] = {}
        os.environ["PATH"] = self.environment["PATH"]  # where posix_spawnp looks

    def start(self, argv: Sequence[str], files: Sequence[tuple[int, int, int]] = ()) -> int:
        """Start a process in a session of its own, with default signals; its pid."""
        default = [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE]
        return os.posix_spawnp(
            argv[0], list(argv), self.environment, file_actions=list(files), setsid=True, setsigdef=default
        )

    def reap(self) -> bool:
        """Collect what has ended; whether anything is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            code = os.waitstatus_to_exitcode(status)
            self.exits[pid] = code if code >= 0 else 128 - code

    def end_all(self, wake: int) -> None:
        """SIGTERM to every process, SIGKILL to what is left after the grace."""
        self._signal_all(signal.SIGTERM)
        deadline = time.monotonic() + self.stop_grace_s
        while self.reap() and (left := deadline - time.monotonic()) > 0:
            if select.select([wake], [], [], min(left, 0.5))[0]:
                os.read(wake, 4096)
        self._signal_all(signal.SIGKILL)
        while self.reap():
            time.sleep(0.002)

    def _signal_all(self, number: int) -> None:
        if not self.walls:  # without a pid namespace "every process" would be this computer's
            for pid in descendants(os.getpid()):
                send(pid, number)
            return
        send(-1, number)


class Container:
    """A container: one command; when it ends, all that it started ends."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.processes = Processes(config)
        self.argv: list[str] = config["argv"]
        os.makedirs(config["directory"], exist_ok=True)
        os.chdir(config["directory"])

    def run(self, wake: int) -> int:
        """Run the command to its end; its status as a shell gives it, 127 where there is no such command."""
        try:
            main = self.processes.start(self.argv)
        except OSError as error:
            os.write(2, f"exec: {self.argv[0]!r}: {error.strerror}\n".encode())
            return 127 if isinstance(error, FileNotFoundError) else 126
        while main not in self.processes.exits:
            select.select([wake], [], [])
            noted = os.read(wake, 4096)
            if signal.SIGTERM in noted:
                self.processes.end_all(wake)
            self.processes.reap()
        if not self.processes.walls:  # within walls the kernel does it when process 1 ends
            self.processes.end_all(wake)
        return self.processes.exits[main]


class Machine:
    """A virtual machine: runs its startup script, stays up, goes down by itself or by the power button."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.processes = Processes(config)
        self.hostname: str = config["hostname"]
        self.startup: str | None = config["startup_script"]
        self.shutdown: str | None = config["shutdown_script"]
        self.now: float = config["booted_at"]
        self.began = time.monotonic()
        self.console = _fifos()
        self.readers: dict[int, _Lines] = {}
        self.scripts: dict[int, str] = {}
        os.chdir("/")

    def run(self, wake: int) -> int:
        """Boot, and stay up until power off (EXIT_POWEROFF) or reboot (EXIT_REBOOT)."""
        self._say("Starting startup scripts (emulated guest agent).")
        self._launch("startup-script", self.startup)
        while True:
            word = self._listen(wake, None)
            if word is not None:
                return self._go_down(wake, word)

    def _go_down(self, wake: int, word: str) -> int:
        self._say(f"Powering down: {word}.", "systemd-logind")
        for descriptor in list(self.readers):  # the runner alone is told to end: the scripts' pipes break
            self._let_go(descriptor)
        self.scripts.clear()
        units = {pid: unit for pid, unit in _units().items() if os.path.exists(f"/proc/{pid}")}
        for pid in units:
            send(pid, signal.SIGTERM)
        if self.shutdown is not None:
            self._launch("shutdown-script", self.shutdown)
        asked = time.monotonic()
        while "shutdown-script" in self.scripts.values() or any(
            time.monotonic() < asked + stop_s and os.path.exists(f"/proc/{pid}")
            for pid, (stop_s, _) in units.items()
        ):
            self._listen(wake, 0.05)
        self.processes.end_all(wake)
        self._listen(wake, 0.0)
        return EXIT_REBOOT if word == "reboot" else EXIT_POWEROFF

    def _launch(self, kind: str, text: str | None) -> None:
        if text is None:
            self._say("No startup scripts to run.")
            return
        self._say(f"Found {kind} in metadata.")
        path = f"{SCRIPTS}/{kind}"
        os.makedirs(SCRIPTS, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o700)
        read, write = os.pipe()
        files = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_DUP2, write, 2)]
        pid = self.processes.start(
            ["/bin/bash", "-c", path], files
        )  # as the guest agent does: its own #! counts
        os.close(write)
        os.set_blocking(read, False)
        self.readers[read] = _Lines(f"{RUNNER}[{pid}]: {kind}: ")
        self.scripts[pid] = kind

    def _listen(self, wake: int, timeout: float | None) -> str | None:
        """Wait for something to happen; the power word, when it is one."""
        ready, _, _ = select.select([wake, *self.console, *self.readers], [], [], timeout)
        word = None
        for descriptor in ready:
            if descriptor == wake:
                if signal.SIGTERM in os.read(wake, 4096):
                    word = "power button"
            elif descriptor in self.readers:
                self._drain(descriptor)
            elif self.console[descriptor] == POWER_FIFO:
                word = "reboot" if b"reboot" in os.read(descriptor, 4096) else "poweroff"
            else:
                os.write(1, os.read(descriptor, 65536))
        self.processes.reap()
        for pid in [pid for pid in self.scripts if pid in self.processes.exits]:
            self._ended(pid)
        if word is None and any(
            action == "poweroff" and self.processes.exits.get(pid, 0) not in CLEAN
            for pid, (_, action) in _units().items()
        ):
            word = "poweroff"
        return word

    def _drain(self, descriptor: int) -> None:
        while True:
            try:
                data = os.read(descriptor, 65536)
            except BlockingIOError:
                return
            lines = self.readers[descriptor]
            for line in lines.take(data):
                self._write(lines.prefix + line)
            if lines.is_too_long:
                kind = lines.prefix.split()[-1].rstrip(":")
                why = "bufio.Scanner: token too long"
                self._say(f'error while communicating with "{kind}" script: {why}')
            if lines.is_too_long or not data:
                self._let_go(descriptor)
                return

    def _let_go(self, descriptor: int) -> None:
        os.close(descriptor)
        del self.readers[descriptor]

    def _ended(self, pid: int) -> None:
        kind, status = self.scripts.pop(pid), self.processes.exits[pid]
        for descriptor in [each for each, lines in self.readers.items() if f"[{pid}]" in lines.prefix]:
            self._drain(descriptor)
        if status == 0:
            self._write(f"{RUNNER}[{pid}]: {kind} exit status 0")
        else:  # the wording of the present guest agent
            self._write(f'{RUNNER}[{pid}]: Script "{kind}" failed with error: exit status {status}')
        self._write(f"{RUNNER}[{pid}]: Finished running {kind.removesuffix('-script')} scripts.")

    def _say(self, text: str, who: str = RUNNER) -> None:
        self._write(f"{who}[1]: {text}")

    def _write(self, text: str) -> None:
        now = time.gmtime(self.now + time.monotonic() - self.began)
        data = f"{time.strftime('%b %e %H:%M:%S', now)} {self.hostname} {text}\r\n".encode("utf-8", "replace")
        while data:
            data = data[os.write(1, data) :]


class _Lines:
    """Bytes in, whole lines out."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.is_too_long = False
        self._rest = b""

    def take(self, data: bytes) -> list[str]:
        """The lines that `data` completes, up to one that is too long; with no data, what is left."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            lines, self._rest = [*lines, self._rest], b""
        too_long = [at for at, line in enumerate([*lines, self._rest]) if len(line) >= LONGEST]
        if too_long:
            self.is_too_long = True
            lines = lines[: too_long[0]]
        return [line.rstrip(b"\r").decode("utf-8", "replace") for line in lines]


def _fifos() -> dict[int, str]:
    """The power switch and the serial consoles, as descriptors to listen on."""
    found = {}
    for path in (POWER_FIFO, *CONSOLES):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkfifo(path, 0o600)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        found[descriptor] = path
    return found


def _units() -> dict[int, tuple[float, str]]:
    """First process -> seconds it has to end, and what follows its failure, of what systemd-run started."""
    found = {}
    for name in os.listdir(UNITS) if os.path.isdir(UNITS) else ():
        with open(os.path.join(UNITS, name)) as file:
            pid, stop_s, at_failure = file.read().split()
        found[int(pid)] = (float(stop_s), at_failure)
    return found


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def descendants(root: int) -> list[int]:
    """Every process below `root`, nearest first."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(name))
    found, queue = [], [root]
    while queue:
        children = parents.get(queue.pop(0), [])
        found += children
        queue += children
    return found
