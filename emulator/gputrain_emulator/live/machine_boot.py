"""One boot of a machine in Podman, from power on to power off."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import cast

from gputrain_emulator.live.guest_process import EXIT_REBOOT, GuestError
from gputrain_emulator.live.release_agent import ReleaseAgent

POWER_BUTTON = 4
"""Past SIGRTMIN, which not every system has: start poweroff.target. Source: systemd(1)."""
AGAIN_S = 1.0
START_S = 60.0


class Boot:
    """From power on to power off; its processes end with `pull_the_plug`."""

    def __init__(self, name: str, pidfile: Path, command: list[str]) -> None:
        pidfile.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        patience = time.monotonic() + START_S
        while not pidfile.exists() or not pidfile.read_text():
            if self._process.poll() is not None or time.monotonic() > patience:
                self._process.kill()
                said = self._process.communicate()[0].decode("utf-8", "replace").strip()
                raise GuestError(f"{name} does not start: {said}")
            time.sleep(0.01)
        self.pid = int(pidfile.read_text())
        self._first = os.pidfd_open(self.pid)
        self._agent = ReleaseAgent(self.pid)
        self._pressed: threading.Thread | None = None
        self.stdout = _Console(cast(io.BufferedReader, self._process.stdout))

    def press_power_button(self) -> None:
        """ACPI G2; a machine that has not come so far as to hear it hears it later."""
        if self._pressed is None:
            self._pressed = threading.Thread(target=self._press, name="power button", daemon=True)
            self._pressed.start()

    def pull_the_plug(self) -> None:
        """Every process of it is killed now, with the first one."""
        self._signal(signal.SIGKILL)

    def wait(self) -> int:
        """How it went down: EXIT_REBOOT, or 0."""
        self._process.wait()
        return EXIT_REBOOT if b"Rebooting." in self.stdout.last else 0

    def close(self) -> None:
        """Let go of its console, once it has ended."""
        self.pull_the_plug()
        self._process.wait()
        self._agent.close()
        if self._pressed is not None:
            self._pressed.join()
        self.stdout.close()
        os.close(self._first)

    def _press(self) -> None:
        while self._process.poll() is None:
            self._signal(signal.SIGRTMIN + POWER_BUTTON)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(AGAIN_S)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):  # it is off
            signal.pidfd_send_signal(self._first, number)


class _Console:
    """What the machine writes on its console, and the last of it, where systemd says how it goes down."""

    def __init__(self, pipe: io.BufferedReader) -> None:
        self._pipe = pipe
        self.last = b""

    def read1(self, size: int) -> bytes:
        data = self._pipe.read1(size)
        self.last = (self.last + data)[-200:]
        return data

    def close(self) -> None:
        self._pipe.close()
