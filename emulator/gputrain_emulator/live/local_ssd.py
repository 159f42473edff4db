"""Local SSDs of a machine that boots for real: empty block devices under the names of Google's images."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gputrain_emulator import facts

NAME = "/dev/disk/by-id/google-local-nvme-ssd-{}"
MIB = 1024
"""Of each: a sparse file of this computer. Google's have 375 GiB."""


class LocalSsds:
    """Those that come with a machine type, each behind a loop device.

    Args:
        folder: where the files lie.
        machine_type: as ``a3-highgpu-8g``.
    """

    def __init__(self, folder: Path, machine_type: str) -> None:
        self._devices: list[str] = []
        for number in range(facts.machines()[machine_type].local_ssds):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / str(number)
            with open(path, "wb") as file:
                file.truncate(MIB << 20)
            done = subprocess.run(
                ["losetup", "--find", "--show", str(path)], capture_output=True, text=True, check=True
            )
            self._devices.append(done.stdout.strip())

    @property
    def words(self) -> list[str]:
        """How a container is given them."""
        return [f"--device={one}:{NAME.format(number)}" for number, one in enumerate(self._devices)]

    @property
    def detach(self) -> str:
        """What a shell says to let go of them."""
        return "".join(f"losetup --detach {one} 2>/dev/null;" for one in self._devices) or ":"

    def close(self) -> None:
        """Let go of them."""
        subprocess.run(["sh", "-c", self.detach], check=False)
        self._devices = []
