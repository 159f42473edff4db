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
from gputrain_emulator.logging.entries import SEVERITIES

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


class LiveReplica:
    """A replica's container, from its start to its end.

    Args:
        task: `workerpool0-0`.
        buckets: what it sees under /gcs.
        allow_unconfined: run its command as an ordinary process where the kernel gives no walls.
        after: earlier replicas of the task, whose machine is gone before this one's is there.
        write: takes each line of output.
        ended: takes the exit status, once, unless the replica was told to end.
        gone: called when the last process is gone, in any case.
    """

    def __init__(
        self,
        *,
        task: str,
        program: Program,
        folder: Path,
        hostname: str,
        hosts: Mapping[str, str],
        environment: Mapping[str, str],
        gpus: Sequence[Mapping[str, Any]],
        engine: Callable[[], Engine | None],
        buckets: GcsFolder,
        allow_unconfined: bool,
        after: Sequence[LiveReplica],
        write: Callable[[Line], None],
        ended: Callable[[int], None],
        gone: Callable[[], None],
    ) -> None:
        self.task = task
        self.told_to_end = False
        self.is_gone = False
        self._program = program
        self._folder = folder
        self._hostname = hostname
        self._hosts = hosts
        self._environment = environment
        self._gpus = gpus
        self._engine = engine
        self._buckets = buckets
        self._allow_unconfined = allow_unconfined
        self._after = after
        self._write = write
        self._ended = ended
        self._gone = gone
        self._temporary = OwnFolder()  # not below the other: names of sockets may have 107 characters
        self._guest: Guest | None = None
        self._is_cut = False
        self._thread = threading.Thread(target=self._live, name=f"replica {task}", daemon=True)
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
        for earlier in self._after:
            earlier.join()
        status = EXIT_NO_START
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._buckets.sync()
            status = self._run()
            self._buckets.sync()
        except (GuestError, OSError) as error:
            self._note(f"the replica cannot be kept going here: {error}")
        remove(self._folder)
        self._temporary.close()
        self.is_gone = True
        if not self.told_to_end:
            self._ended(status)
        self._gone()

    def _run(self) -> int:
        engine = self._engine()
        if engine is not None and not engine.has(self._program.image):
            self._note(f"image {self._program.image} is not on this computer, and the emulator pulls nothing")
            engine = None
        if engine is None and not self._program.command:
            self._note("without an image to run, containerSpec.command must say what to run")
            return EXIT_NO_START
        refusal = why_no_walls() if engine is None and not self._allow_unconfined else None
        if refusal is not None:
            self._note(f"the command was not run, as nothing would confine it here: {refusal}")
            return EXIT_NO_START
        name = f"emulated-{self._hostname}-{os.getpid()}"
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
            self._write(read_line(data, severity))

    def _local(self) -> Setup:
        """The command on this computer, within walls where the kernel allows them."""
        walls = why_no_walls() is None
        self._note(
            f"no container engine has {self._program.image}: its command runs on this machine's "
            f"Python, {'in namespaces of its own' if walls else 'as an ordinary process'}"
        )
        replaced = standins.write(self._folder / "standins", gpus=self._gpus)
        hosts = self._folder / "hosts"
        hosts.write_text(
            "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in self._hosts.items())
        )
        first = standins.INSIDE if walls else str(self._folder / "standins")
        disk = self._folder / "disk"
        disk.mkdir(exist_ok=True)
        own = {"HOME": "/root"} if walls else {"HOME": str(disk), "TMPDIR": str(self._temporary.path)}
        return Setup(
            kind="container",
            disk=disk,
            hostname=self._hostname,
            hosts=hosts,
            environment={**own, "LANG": "C.UTF-8"}
            | {**self._environment, "PATH": f"{first}:{self._environment.get('PATH', PATH)}"},
            replaced={**replaced, GCS: str(self._buckets.path)} if walls else {},
            walls=walls,
            argv=[*self._program.command, *self._program.args],
            directory="/workspace" if walls else str(disk),
        )

    def _contained(self, engine: Engine, name: str) -> Setup:
        """The image in the engine; the guest is the engine's client."""
        argv = engine.command(
            self._program.image,
            self._program.args,
            name=name,
            hostname=self._hostname,
            hosts=self._hosts,
            environment=self._environment,
            environment_file=self._folder / "environment",
            entrypoint=self._program.command,
            volumes={str(self._buckets.path): GCS},
        )
        return Setup(
            kind="container",
            disk=self._folder,
            hostname=self._hostname,
            hosts=self._folder / "hosts",
            environment={
                **long_values(self._environment),
                "PATH": os.environ.get("PATH", PATH),
                "HOME": os.environ.get("HOME", "/"),
            },
            walls=False,
            argv=argv,
            directory=str(self._folder),
        )

    def _note(self, text: str) -> None:
        self._write(Line(severity="NOTICE", text=f"gputrain emulator: {text}"))
