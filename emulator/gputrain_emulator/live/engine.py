"""Docker or Podman, where one of them answers: then images run in it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ASK_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A container engine that answers."""

    program: str

    def has(self, image: str) -> bool:
        """Whether the image is on this computer; nothing is ever pulled."""
        return _succeeds([self.program, "image", "inspect", image])

    def command(
        self,
        image: str,
        argv: Sequence[str],
        *,
        name: str,
        hostname: str,
        hosts: Mapping[str, str],
        environment: Mapping[str, str],
        environment_file: Path,
        entrypoint: Sequence[str] = (),
        volumes: Mapping[str, str] = MappingProxyType({}),
    ) -> list[str]:
        """The command line that runs `image` as a replica.

        The environment travels in a file, as a command line can be read by every user of this computer. It
        shares the computer's network, so that every replica has its own loopback address.

        volumes: folders of this computer -> where the container sees them.
        """
        lines = [f"{key}={value}" for key, value in environment.items() if "\n" not in value]
        environment_file.touch(mode=0o600)
        environment_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        words = [self.program, "run", "--rm", "--init", "--pull=never", "--network=host", f"--name={name}"]
        words += [f"--hostname={hostname}", f"--env-file={environment_file}", "--stop-timeout=30"]
        words += [f"--add-host={host}:{address}" for host, address in hosts.items()]
        words += [f"--env={key}" for key in long_values(environment)]
        words += [f"--volume={source}:{target}" for source, target in volumes.items()]
        if Path("/dev/nvidia0").exists():
            words += (
                ["--gpus=all"] if Path(self.program).name == "docker" else ["--device=nvidia.com/gpu=all"]
            )
        if entrypoint:
            words.append(f"--entrypoint={entrypoint[0]}")
        return [*words, image, *entrypoint[1:], *argv]

    def remove(self, name: str) -> None:
        """End the container `name` if it is still there."""
        _succeeds([self.program, "rm", "--force", name])


def long_values(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of several lines."""
    return {key: value for key, value in environment.items() if "\n" in value}


def find() -> Engine | None:
    """The engine of this computer, None where none answers."""
    for name in ("docker", "podman"):
        program = shutil.which(name)
        if program and _succeeds([program, "version", "--format", "{{.Server.Version}}"]):
            return Engine(program=program)
    return None


def _succeeds(argv: Sequence[str]) -> bool:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
