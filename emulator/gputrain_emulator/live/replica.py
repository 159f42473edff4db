"""One live replica of a custom job: a real process, its lines in Logging."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from gputrain_emulator.folders import OwnFolder, remove
from gputrain_emulator.live import standins
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.live.guest_process import PATH, Guest, GuestError, Setup, why_no_walls
from gputrain_emulator.logging import SEVERITIES

MAX_LINE = 256 * 1024  # what a log entry holds; the log agent cuts longer lines
EXIT_NO_START = 127
ENGINE_S = 10.0
GCS = "/gcs"  # where a replica sees every bucket. Source: Vertex AI code requirements, read 2026-11-20

Write = Callable[[str, str, "Mapping[str, Any] | None"], None]
"""Takes severity and text of a line, or the JSON object that it was."""


@dataclass(kw_only=True, eq=False)
class LiveReplica:
    """A replica's container, from its start to its end: an image, or its command on this computer."""

    task: str
    """`workerpool0-0`."""
    container: Mapping[str, Any]
    """`imageUri`, and `command` and `args` where there are some."""
    folder: Path
    hostname: str
    hosts: Mapping[str, str]
    environment: Mapping[str, str]
    gpus: Sequence[Mapping[str, Any]]
    buckets: GcsFolder
    """What it sees under /gcs."""
    allow_unconfined: bool
    """Run its command as an ordinary process where the kernel gives no walls."""
    after: Sequence[LiveReplica]
    """Earlier replicas of the task, whose machine is gone before this one's is there."""
    write: Write
    ended: Callable[[int], None]
    """Takes the exit status, once, unless the replica was asked to end."""
    gone: Callable[[], None]
    """Called when the last process is gone, in any case."""
    is_ending: bool = False
    is_gone: bool = False
    _guest: Guest | None = None
    _is_cut: bool = False

    def __post_init__(self) -> None:
        self._temporary = OwnFolder()  # not below the other: names of sockets may have 107 characters
        self._thread = threading.Thread(target=self._live, name=f"replica {self.task}", daemon=True)
        self._thread.start()

    def terminate(self) -> None:
        """SIGTERM to the container's processes; its exit is not reported."""
        self.is_ending = True
        if self._guest is not None:
            self._guest.press_power_button()

    def kill(self) -> None:
        """SIGKILL; its exit is not reported."""
        self.is_ending = self._is_cut = True
        if self._guest is not None:
            self._guest.pull_the_plug()

    def join(self) -> None:
        """Wait until nothing of it is left."""
        self._thread.join()

    def _live(self) -> None:
        for earlier in self.after:
            earlier.join()
        status = EXIT_NO_START
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.buckets.sync()
            status = self._run()
            self.buckets.sync()
        except (GuestError, OSError) as error:
            self._note(f"the replica cannot be kept going here: {error}")
        remove(self.folder)
        self._temporary.close()
        self.is_gone = True
        if not self.is_ending:
            self.ended(status)
        self.gone()

    def _run(self) -> int:
        image, program = self.container.get("imageUri", ""), engine()
        if program and not _succeeds([program, "image", "inspect", image]):
            self._note(f"image {image} is not on this computer, and the emulator pulls nothing")
            program = ""
        if not program and not self.container.get("command"):
            self._note("without an image to run, containerSpec.command must say what to run")
            return EXIT_NO_START
        refusal = None if program or self.allow_unconfined else why_no_walls()
        if refusal is not None:
            self._note(f"the command was not run, as nothing would confine it here: {refusal}")
            return EXIT_NO_START
        name = f"emulated-{self.hostname}-{os.getpid()}"
        self._guest = guest = Guest(self._contained(program, image, name) if program else self._local(image))
        if self._is_cut:
            guest.pull_the_plug()
        elif self.is_ending:
            guest.press_power_button()
        status = self._follow(guest)
        if program:
            _succeeds([program, "rm", "--force", name])
        return status

    def _follow(self, guest: Guest) -> int:
        """Pass on every line until the end; the exit status."""
        errors = threading.Thread(target=self._pass_on, args=(guest.stderr, "ERROR"), daemon=True)
        errors.start()
        self._pass_on(guest.stdout, "INFO")
        errors.join()
        status = guest.wait()
        self._guest = None
        guest.close()
        return status

    def _pass_on(self, stream: BufferedReader, severity: str) -> None:
        while data := stream.readline(MAX_LINE):
            self.write(*read_line(data, severity))

    def _local(self, image: str) -> Setup:
        """The command on this computer, within walls where the kernel allows them."""
        walls = why_no_walls() is None
        self._note(
            f"no container engine has {image}: its command runs on this machine's "
            f"Python, {'in namespaces of its own' if walls else 'as an ordinary process'}"
        )
        replaced = standins.write(self.folder / "standins", gpus=self.gpus)
        hosts, disk = self.folder / "hosts", self.folder / "disk"
        rows = "".join(f"{ip} {name}\n" for name, ip in self.hosts.items())
        hosts.write_text(f"127.0.0.1 localhost\n{rows}")
        first = standins.INSIDE if walls else str(self.folder / "standins")
        disk.mkdir(exist_ok=True)
        own = {"HOME": "/root"} if walls else {"HOME": str(disk), "TMPDIR": str(self._temporary.path)}
        return Setup(
            kind="container",
            disk=disk,
            hostname=self.hostname,
            hosts=hosts,
            environment={**own, "LANG": "C.UTF-8"}
            | {**self.environment, "PATH": f"{first}:{self.environment.get('PATH', PATH)}"},
            replaced={**replaced, GCS: str(self.buckets.path)} if walls else {},
            walls=walls,
            argv=[*self.container["command"], *self.container.get("args", ())],
            directory="/workspace" if walls else str(disk),
        )

    def _contained(self, program: str, image: str, name: str) -> Setup:
        """The image in an engine; the guest is the engine's client.

        The environment travels in a file, as a command line can be read by every user of this computer. It
        shares the computer's network, so that every replica has its own loopback address.
        """
        file = self.folder / "environment"
        file.touch(mode=0o600)
        long = {key: value for key, value in self.environment.items() if "\n" in value}
        rows = (f"{key}={value}\n" for key, value in self.environment.items() if key not in long)
        file.write_text("".join(rows), encoding="utf-8")
        command, *arguments = self.container.get("command") or [""]
        words = [program, "run", "--rm", "--init", "--pull=never", "--network=host", f"--name={name}"]
        words += [f"--hostname={self.hostname}", f"--env-file={file}", "--stop-timeout=30"]
        words += [f"--add-host={host}:{address}" for host, address in self.hosts.items()]
        words += [*(f"--env={key}" for key in long), f"--volume={self.buckets.path}:{GCS}"]
        if Path("/dev/nvidia0").exists():
            is_docker = Path(program).name == "docker"
            words.append("--gpus=all" if is_docker else "--device=nvidia.com/gpu=all")
        if command:
            words.append(f"--entrypoint={command}")
        own = {name: os.environ.get(name, usual) for name, usual in (("PATH", PATH), ("HOME", "/"))}
        return Setup(
            kind="container",
            disk=self.folder,
            hostname=self.hostname,
            hosts=self.folder / "hosts",
            environment={**long, **own},
            walls=False,
            argv=[*words, image, *arguments, *self.container.get("args", ())],
            directory=str(self.folder),
        )

    def _note(self, text: str) -> None:
        self.write("NOTICE", f"gputrain emulator: {text}", None)


def read_line(data: bytes, severity: str) -> tuple[str, str, Mapping[str, Any] | None]:
    """Severity and text of a line, as the log agent sends it; one JSON object becomes structured."""
    text = data.decode("utf-8", "replace").rstrip("\r\n")
    if not text.startswith("{"):
        return severity, text, None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return severity, text, None
    said = str(document.pop("severity", severity)).upper()
    return said if said in SEVERITIES else severity, "", document


_asking = threading.Lock()


def engine() -> str:
    """Docker or Podman, whichever answers on this computer first; "" where none does."""
    with _asking:  # replicas begin together, and one answer is enough for all
        return _engine(os.environ.get("PATH", ""))


@functools.cache
def _engine(path: str) -> str:
    programs = (shutil.which(name, path=path) for name in ("docker", "podman"))
    asked = ["version", "--format", "{{.Server.Version}}"]
    return next((one for one in programs if one and _succeeds([one, *asked])), "")


def _succeeds(argv: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=ENGINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
