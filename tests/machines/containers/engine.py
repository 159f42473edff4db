"""A program `docker` that is this computer's Podman, with storage of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gputrain_emulator.live import podman

DOCKER = """#!/bin/bash
export CONTAINERS_CONF={folder}/containers.conf CONTAINERS_STORAGE_CONF={folder}/storage.conf PATH={places}
case $1 in
    version) echo 4 ;;
    pull) exec podman pull --tls-verify=false "${{@:2}}" ;;
    run) exec podman run --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "${{@:2}}" ;;
    *) exec podman "$@" ;;
esac
"""


@contextmanager
def running(folder: Path) -> Iterator[Path]:
    """The folder of such a program; nothing of it is left afterwards."""
    settings = Path(__file__).with_name("etc")
    shutil.copy(settings / "containers.conf", folder)
    storage = (settings / "storage.conf").read_text()
    (folder / "storage.conf").write_text(
        storage.replace("/var/lib/containers", f"{folder}/lib").replace("/run/containers", f"{folder}/run")
    )
    program = folder / "docker"
    program.write_text(DOCKER.format(folder=folder, places=podman.PLACES))
    program.chmod(0o755)
    try:
        yield folder
    finally:
        subprocess.run([program, "rm", "--all", "--force"], check=False, env={"PATH": os.environ["PATH"]})
