"""Podman for a test of its own: in namespaces that end with it, behind a program `docker`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gputrain_emulator.live import podman
from gputrain_emulator.live.guest import cgroups
from tests.patience import PATIENCE_S

# Its /run, its shared memory and its images are its own; process 1 reaps what the monitors leave.
START = """
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && mkdir -p /run/lock {inside} {storage} &&
mount --bind {folder} {inside} && mount --bind {images} {storage} &&
exec {init} -- {program} system service --time=0 unix://{socket}
"""


@contextmanager
def running(folder: Path) -> Iterator[Path]:
    """The folder of a `docker` that speaks to an engine of its own; nothing of it is left afterwards."""
    settings, images, socket = folder / "engine", folder / "images", folder / "docker.sock"
    podman.write(settings, images, volumes=())
    group = podman.cgroup_of(f"test-{os.getpid()}")
    programs = folder / "bin"
    programs.mkdir()
    text = podman.client(group, gpus=8, socket=str(socket), configuration=str(settings))
    (programs / "docker").write_text(text)
    (programs / "docker").chmod(0o755)
    words = {
        "inside": podman.INSIDE, "storage": podman.STORAGE, "folder": settings, "images": images,
        "socket": socket, "init": podman.program("catatonit"), "program": podman.program("podman"),
    }  # fmt: skip
    hierarchies = cgroups.hierarchies()
    with open(folder / "log", "wb") as log:
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        process = subprocess.Popen(
            [*unshare, "sh", "-c", START.format(**words)],
            env={**podman.environment(podman.INSIDE), "PATH": podman.PLACES}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        patience = time.monotonic() + PATIENCE_S
        while not socket.exists():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < patience, "the engine does not come up"
            time.sleep(0.02)
        yield programs
    finally:
        process.kill()  # and with it the namespace's first process, and with that all others
        process.wait()
        _wait_for_the_end(group, hierarchies)


def _wait_for_the_end(group: str, hierarchies: list[int]) -> None:
    """A control group can be removed once its last process is gone."""
    patience = time.monotonic() + PATIENCE_S
    while any(group in os.listdir(top) for top in hierarchies):
        cgroups.remove(group, hierarchies)
        assert time.monotonic() < patience, "processes of the engine are left"
        time.sleep(0.02)
    for top in hierarchies:
        os.close(top)
