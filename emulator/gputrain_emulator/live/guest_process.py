"""One guest: the process of this computer that holds an emulated machine, seen from the emulator."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import cast

FOLDER = Path(__file__).parent
EXIT_REBOOT = 3
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class GuestError(Exception):
    """A guest could not be set up; the text says which step the kernel refused."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a guest is made of.

    kind: "vm" (scripts at every boot, stays up) or "container" (one command).
    disk: its folder; what the guest writes lands there, and lasts as long as the folder.
    hosts: the file that the guest sees as /etc/hosts.
    replaced: paths inside -> files of this computer that stand there instead.
    walls: own namespaces and file system; without them a container is an ordinary process.
    stop_grace_s: between SIGTERM to all and SIGKILL to what is left, when the guest goes down in order.
    """

    kind: str
    disk: Path
    hostname: str
    hosts: Path
    environment: Mapping[str, str]
    replaced: Mapping[str, str] = field(default_factory=dict)
    walls: bool = True
    stop_grace_s: float = 90.0
    argv: Sequence[str] = ()
    directory: str = "/"
    startup_script: str | None = None
    shutdown_script: str | None = None
    booted_at: float = 0.0


class Guest:
    """A running guest. Its processes end with `pull_the_plug`, and with the emulator however that ends."""

    def __init__(self, setup: Setup) -> None:
        """Start it; returns when its first process is about to run the guest's own code.

        Raises GuestError when the kernel refuses a step of the setting up.
        """
        read, write = os.pipe()
        config = _config(setup, write)
        path = setup.disk / "guest.json"
        path.write_text(json.dumps(config, default=str), encoding="utf-8")
        path.chmod(0o600)
        code = "import sys; sys.path.insert(0, sys.argv[1]); from guest.init import main; main(sys.argv[2])"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code, str(FOLDER), str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if setup.kind == "container" else subprocess.STDOUT,
                pass_fds=(write,),
                env={"PATH": PATH},
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(write)
        with os.fdopen(read) as failed:
            refusal = failed.read()
        if refusal:
            self.pull_the_plug()
            self.wait()
            self.close()
            raise GuestError(refusal)

    @property
    def pid(self) -> int:
        """The outer process, in this computer's own numbering."""
        return self._process.pid

    @property
    def stdout(self) -> io.BufferedReader:
        """A container's standard output, or a VM's serial port."""
        return cast(io.BufferedReader, self._process.stdout)

    @property
    def stderr(self) -> io.BufferedReader:
        """A container's standard error."""
        return cast(io.BufferedReader, self._process.stderr)

    def press_power_button(self) -> None:
        """Ask it to go down in order: SIGTERM to everything inside (a VM runs its shutdown script first)."""
        self._control(b"button\n")

    def wait(self, timeout_s: float | None = None) -> int:
        """Its exit status; raises subprocess.TimeoutExpired after `timeout_s` seconds."""
        return self._process.wait(timeout_s)

    def close(self) -> None:
        """Let go of its pipes, once it has ended."""
        self.pull_the_plug()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def pull_the_plug(self) -> None:
        """Kill everything inside now; `wait` returns when it is gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a button that nobody heard
            self._process.stdin.close()

    def _control(self, text: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return  # it is already down


def _config(setup: Setup, failed_fd: int) -> dict[str, object]:
    visible = [sys.prefix, sys.base_prefix, str(FOLDER.parents[2])]
    return {**asdict(setup), "visible": visible, "failed_fd": failed_fd}


@cache
def why_no_walls() -> str | None:
    """Why this computer gives guests no namespaces and file system of their own; None where it does."""
    if not sys.platform.startswith("linux"):
        return f"live virtual machines need Linux namespaces, and this is {sys.platform}"
    with tempfile.TemporaryDirectory(prefix="emulator-trial-", ignore_cleanup_errors=True) as folder:
        hosts = Path(folder) / "hosts"
        hosts.write_text("127.0.0.1 localhost\n")
        setup = Setup(
            kind="container",
            disk=Path(folder),
            hostname="trial",
            hosts=hosts,
            environment={"PATH": PATH},
            argv=["/bin/true"],
        )
        try:
            guest = Guest(setup)
        except GuestError as error:
            return f"the kernel refuses to set up a guest: {error}"
        return None if guest.wait(30) == 0 else "a trial guest failed"
