"""The container engine of an emulated machine: Podman behind Docker's socket, started when first spoken to.

It is a process of the machine with rights that nothing else inside has, so it sits in a mount namespace of
its own; its containers lie below it, and end with the machine. It may not power off, load modules or set the
clock.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from typing import Any

from . import kernel
from .boot import descendants

LOG = "/var/log/docker.log"
CGROUPS = "/sys/fs/cgroup"
PAUSE_S = 0.05
# By number in include/uapi/linux/capability.h, beside what every process inside has: dac_read_search,
# net_admin, net_raw, sys_ptrace, sys_admin, sys_nice, sys_resource, mknod, bpf.
CAPABILITIES = kernel.KEPT_CAPABILITIES | {2, 12, 13, 19, 21, 23, 24, 27, 39}


def start(config: dict[str, Any], closed: int) -> int:
    """Begin to listen; the pid of the process that everything of the engine lies below.

    Called in the machine's first process, before it gives up its rights. config: `program`, `socket`,
    `environment`. closed: a descriptor that the engine does not inherit.
    """
    os.makedirs(os.path.dirname(config["socket"]), exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(config["socket"])
    listener.listen(64)
    # A machine that goes down at once asks before there is a handler: the kernel keeps the question.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        os.close(closed)
        try:
            _Holder(config, listener).run()
        finally:
            os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    listener.close()
    return pid


class _Holder:
    """Waits for the first call, runs the service, adopts what it starts, and stops all in order."""

    def __init__(self, config: dict[str, Any], listener: socket.socket) -> None:
        self.program: str = config["program"]
        self.environment: dict[str, str] = config["environment"]
        self.listener = listener
        self.service = 0
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        if os.path.isdir(CGROUPS):
            kernel.make_writable(CGROUPS)
        kernel.adopt_orphans()
        kernel.drop_capabilities(CAPABILITIES)
        os.setsid()
        self._redirect()
        self.wake, write = os.pipe()
        for end in (self.wake, write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def run(self) -> None:
        """Serve until SIGTERM."""
        while True:
            calls = [] if self.service else [self.listener.fileno()]
            ready = select.select([self.wake, *calls], [], [])[0]
            if self.wake in ready:
                heard = os.read(self.wake, 4096)
                self._reap()
                if signal.SIGTERM in heard:
                    self._stop()
            elif ready:
                self.service = self._serve()

    def _serve(self) -> int:
        """Start the service on the listening socket, as systemd hands it over."""
        pid = os.fork()
        if pid:
            return pid
        try:
            os.dup2(self.listener.fileno(), 3)
            os.set_inheritable(3, True)  # where it was 3 already
            own = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
            argv = [self.program, "system", "service", "--time=0"]
            os.execve(argv[0], argv, {**self.environment, **own})  # noqa: S606 - a program of this computer
        finally:
            os._exit(127)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.service:
                self.service = 0

    def _stop(self) -> None:
        """As Docker does when its machine goes down: SIGTERM to each container, and the time it asked for."""
        if self.service:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            command = [self.program, "stop", "--all", "--ignore"]
            subprocess.call(command, env=self.environment, stdin=subprocess.DEVNULL)
            while _others() or len(descendants(os.getpid())) > 1:  # whoever waits is told how it ended
                time.sleep(PAUSE_S)
                self._reap()
            os.kill(self.service, signal.SIGKILL)
            os.waitpid(self.service, 0)
        os._exit(0)

    def _redirect(self) -> None:
        """What the engine says of itself goes into the machine's own log."""
        quiet = os.open("/dev/null", os.O_RDONLY)
        log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for target, source in ((0, quiet), (1, log), (2, log)):
            os.dup2(source, target)


def _others() -> set[int]:
    """The processes of this machine that are not the engine's."""
    own = {1, os.getpid(), *descendants(os.getpid())}
    return set(descendants(1)) - own
