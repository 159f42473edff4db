"""Buckets as folders of this VM, by Cloud Storage FUSE, as Vertex AI mounts them below /gcs.

A file becomes an object when it is closed; from then on every node sees it.
Source: gcsfuse @7b39292, params.yaml, semantics.md and legacy_main.go, read 2026-11-28.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Set as AbstractSet
from typing import Any

from . import processes
from .devices import need
from .reports import LINES_S, NodeLog, right_to, start
from .supervisor import TICK_S, Failed, Supervisor

ROOT = "/gcs"
FLAGS = (
    "--foreground",
    "--implicit-dirs",  # a folder is there where an object's name says so
    *("-o", "allow_other"),
    "--file-mode=666",
    "--dir-mode=777",
    "--metadata-cache-ttl-secs=0",  # other nodes write too; on A3 and A4 the default is to keep it for ever
    "--metadata-cache-negative-ttl-secs=0",  # one node waits until the files of the others are there
    "--rename-dir-limit=200000",  # many scripts write a folder, and rename it when it is whole
    "--log-severity=warning",
    "--log-format=text",
)
MOUNT_S = 300.0
"""How long the first answer of a bucket may take."""

UNMOUNT_S = 40.0
"""gcsfuse gives up by itself 30 s after it was asked to unmount."""

SOURCE = "/etc/apt/sources.list.d/gputrain-gcsfuse.list"
SOURCE_LINE = "deb https://packages.cloud.google.com/apt gcsfuse-{} main\n"
HINT = (
    "take a boot image that has gcsfuse 3 or newer (boot_image=, image_family=), or give VMs a way to"
    " packages.cloud.google.com: Private Google Access, Cloud NAT, external_ip="
)


class Mounts:
    """The buckets that are mounted here; ``data`` is a folder for files on their way."""

    def __init__(self, job: Any, data: str, log: NodeLog) -> None:
        self._job, self._data, self._log = job, data, log
        self._pids: dict[int, str] = {}
        self._held: list[int] = []
        self._is_over = False

    @property
    def pids(self) -> AbstractSet[int]:
        """The processes that serve them."""
        return self._pids.keys()

    def folder(self, supervisor: Supervisor, place: str) -> str:
        """The folder that is a ``gs://`` place. Raises Failed, and as `Supervisor.until`."""
        bucket, _, prefix = place[len("gs://") :].partition("/")
        try:
            if bucket not in self._pids.values():
                self._mount(supervisor, bucket)
            folder = os.path.join(ROOT, bucket, prefix.rstrip("/"))
            os.makedirs(folder, exist_ok=True)
        except (Failed, OSError) as error:
            right = right_to(self._job, bucket, prefix)
            raise Failed(
                f"{place} cannot be mounted: {error}\nWhere that is a 403, the VM's account needs {right}"
            ) from None
        return folder

    def _mount(self, supervisor: Supervisor, bucket: str) -> None:
        if shutil.which("gcsfuse") is None:
            self._log.say("this boot image has no gcsfuse: it is installed")
            _install(supervisor)
        path, temporary = os.path.join(ROOT, bucket), os.path.join(self._data, "gcsfuse")
        os.makedirs(path, exist_ok=True)
        os.makedirs(temporary, exist_ok=True)
        said: list[str] = []

        def hear(lines: bytes) -> None:
            for line in lines.decode("utf-8", "replace").splitlines():
                said.append(line.strip())
                self._log.say(f"gs://{bucket}: {said[-1]}", "WARNING")

        def ended() -> None:
            if bucket in self._pids.values() and not self._is_over:
                self._log.say(f"gs://{bucket} is mounted no more: gcsfuse has ended", "ERROR")

        words = ["gcsfuse", *FLAGS, f"--temp-dir={temporary}", bucket, path]
        pid, lines = start(supervisor, words, os.environ, "/", hear, ended)
        late = time.monotonic() + MOUNT_S

        def is_decided() -> bool:
            has_failed = pid in supervisor.endings or time.monotonic() > late
            return _is_mounted(path) or (has_failed and not supervisor.rules.stop)

        supervisor.until(is_decided, pid)
        if not _is_mounted(path):
            processes.send([pid], signal.SIGKILL)
            lines.join(LINES_S)
            raise Failed(" ".join(said[-5:]) or f"gcsfuse has not mounted it in {MOUNT_S:g} s")
        self._pids[pid] = bucket
        self._held.append(os.open(path, os.O_RDONLY))  # else systemd unmounts it before the ranks have saved

    def end(self, supervisor: Supervisor) -> None:
        """Unmount them, once no process writes any more."""
        self._is_over = True
        for fd in self._held:
            os.close(fd)
        processes.send(self._pids, signal.SIGTERM)
        late = time.monotonic() + UNMOUNT_S
        while any(pid not in supervisor.endings for pid in self._pids) and time.monotonic() < late:
            supervisor.pause(TICK_S)


def _is_mounted(path: str) -> bool:
    with open("/proc/self/mountinfo") as file:
        return any(line.split()[4] == path for line in file)


def _install(supervisor: Supervisor) -> None:
    """Have gcsfuse, from Google's repository, whose key Google's images know. Raises Failed."""
    with open("/etc/os-release") as file:
        about = dict(line.strip().split("=", 1) for line in file if "=" in line)
    with open(SOURCE, "w") as file:
        file.write(SOURCE_LINE.format(about.get("VERSION_CODENAME", "").strip('"')))
    need(supervisor.call, "gcsfuse", HINT)
