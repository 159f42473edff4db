"""One live replica of a custom job: a real process, its lines in Logging."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from gputrain_emulator.folders import OwnFolder, remove
from gputrain_emulator.live import standins
from gputrain_emulator.live.engine import Engine, long_values
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.live.guest_process import PATH, Guest, GuestError, Setup, why_no_walls
from gputrain_emulator.logging import SEVERITIES

MAX_LINE = 256 * 1024  # what a log entry holds; the log agent cuts longer lines
EXIT_NO_START = 127
GCS = "/gcs"  # where a replica sees every bucket. Source: Vertex AI code requirements, read 2026-11-20


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of output as the log agent sends it: `payload` when the line was a JSON object."""

    severity: str
    text: str = ""
    payload: Mapping[str, Any] | None = None


def read_line(data: bytes, severity: str) -> Line:
    """A line from a stream whose plain lines count as `severity`; one JSON object becomes structured."""
    text = data.decode("utf-8", "replace").rstrip("\r\n")
    if text.startswith("{"):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return Line(severity=severity, text=text)
        said = str(document.pop("severity", severity)).upper()
        return Line(severity=said if said in SEVERITIES else severity, payload=document)
    return Line(severity=severity, text=text)


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a replica runs: an image, with its entry point replaced by `command` where there is one."""

    image: str
    command: Sequence[str]
    args: Sequence[str]


@dataclass(kw_only=True, eq=False)
class LiveReplica:
    """A replica's container, from its start to its end."""

    task: str
    """`workerpool0-0`."""
    program: Program
    folder: Path
    hostname: str
    hosts: Mapping[str, str]
    environment: Mapping[str, str]
    gpus: Sequence[Mapping[str, Any]]
    engine: Callable[[], Engine | None]
    buckets: GcsFolder
    """What it sees under /gcs."""
    allow_unconfined: bool
    """Run its command as an ordinary process where the kernel gives no walls."""
    after: Sequence[LiveReplica]
    """Earlier replicas of the task, whose machine is gone before this one's is there."""
    write: Callable[[Line], None]
    """Takes each line of output."""
    ended: Callable[[int], None]
    """Takes the exit status, once, unless the replica was told to end."""
    gone: Callable[[], None]
    """Called when the last process is gone, in any case."""
    told_to_end: bool = False
    is_gone: bool = False
    _guest: Guest | None = None
    _is_cut: bool = False

    def __post_init__(self) -> None:
        self._temporary = OwnFolder()  # not below the other: names of sockets may have 107 characters
        self._thread = threading.Thread(target=self._live, name=f"replica {self.task}", daemon=True)
        self._thread.start()

    def terminate(self) -> None:
        """SIGTERM to the container's processes; its exit is not reported."""
        self.told_to_end = True
        if self._guest is not None:
            self._guest.press_power_button()

    def kill(self) -> None:
        """SIGKILL; its exit is not reported."""
        self.told_to_end = self._is_cut = True
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
        if not self.told_to_end:
            self.ended(status)
        self.gone()

    def _run(self) -> int:
        engine = self.engine()
        if engine is not None and not engine.has(self.program.image):
            self._note(f"image {self.program.image} is not on this computer, and the emulator pulls nothing")
            engine = None
        if engine is None and not self.program.command:
            self._note("without an image to run, containerSpec.command must say what to run")
            return EXIT_NO_START
        refusal = why_no_walls() if engine is None and not self.allow_unconfined else None
        if refusal is not None:
            self._note(f"the command was not run, as nothing would confine it here: {refusal}")
            return EXIT_NO_START
        name = f"emulated-{self.hostname}-{os.getpid()}"
        self._guest = guest = Guest(self._local() if engine is None else self._contained(engine, name))
        if self._is_cut:
            guest.pull_the_plug()
        elif self.told_to_end:
            guest.press_power_button()
        status = self._follow(guest)
        if engine is not None:
            engine.remove(name)
        return status

    def _follow(self, guest: Guest) -> int:
        """Pass on every line until the end; the exit status."""
        errors = threading.Thread(target=self._pump, args=(guest.stderr, "ERROR"), daemon=True)
        errors.start()
        self._pump(guest.stdout, "INFO")
        errors.join()
        status = guest.wait()
        self._guest = None
        guest.close()
        return status

    def _pump(self, stream: BufferedReader, severity: str) -> None:
        while data := stream.readline(MAX_LINE):
            self.write(read_line(data, severity))

    def _local(self) -> Setup:
        """The command on this computer, within walls where the kernel allows them."""
        walls = why_no_walls() is None
        self._note(
            f"no container engine has {self.program.image}: its command runs on this machine's "
            f"Python, {'in namespaces of its own' if walls else 'as an ordinary process'}"
        )
        replaced = standins.write(self.folder / "standins", gpus=self.gpus)
        hosts = self.folder / "hosts"
        hosts.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in self.hosts.items())
        )
        first = standins.INSIDE if walls else str(self.folder / "standins")
        disk = self.folder / "disk"
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
            argv=[*self.program.command, *self.program.args],
            directory="/workspace" if walls else str(disk),
        )

    def _contained(self, engine: Engine, name: str) -> Setup:
        """The image in the engine; the guest is the engine's client."""
        argv = engine.command(
            self.program.image,
            self.program.args,
            name=name,
            hostname=self.hostname,
            hosts=self.hosts,
            environment=self.environment,
            environment_file=self.folder / "environment",
            entrypoint=self.program.command,
            volumes={str(self.buckets.path): GCS},
        )
        return Setup(
            kind="container",
            disk=self.folder,
            hostname=self.hostname,
            hosts=self.folder / "hosts",
            environment={
                **long_values(self.environment),
                "PATH": os.environ.get("PATH", PATH),
                "HOME": os.environ.get("HOME", "/"),
            },
            walls=False,
            argv=argv,
            directory=str(self.folder),
        )

    def _note(self, text: str) -> None:
        self.write(Line(severity="NOTICE", text=f"gputrain emulator: {text}"))
