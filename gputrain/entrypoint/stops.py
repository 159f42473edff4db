"""What may ask a node to stop, signals and Google's notices, where one ``select`` can wait for it.

Compute Engine tells that a machine will go, preempted or for host maintenance: its metadata server answers a
long poll when a value changes. It is asked directly, never through a proxy. Source: its documentation, read
2026-11-20.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

from . import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Mapping, Tuple

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Those that torchrun heeds, too."""


class Stops:
    """Requests to stop; its descriptor becomes readable with each, and when a child ends."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._reasons: List[str] = []
        self._interrupts = 0

    def listen(self, environ: Mapping[str, str]) -> None:
        """Take over signals, and watch the metadata server where there is one."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and `&` of a plain shell mean it
                signal.signal(number, self._hear_signal)
        if host.is_on_google(environ):
            watch(self._hear_notice)

    def fileno(self) -> int:
        return self._reader

    @property
    def is_insistent(self) -> bool:
        """Whether a person pressed Ctrl-C twice."""
        return self._interrupts > 1

    def take(self) -> List[str]:
        """The reasons given since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 4096)
        reasons, self._reasons[:] = self._reasons[:], []
        return reasons

    def wake(self, *_: object) -> None:
        """Make the descriptor readable, from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"x")

    def _hear_signal(self, number: int, _: object) -> None:
        self._interrupts += number == signal.SIGINT
        self._reasons.append(signal.Signals(number).name)

    def _hear_notice(self, reason: str) -> None:
        self._reasons.append(reason)
        self.wake()


POLL_S = 300
"""How long one question stays open."""

RETRY_S = 5.0
"""Pause after a question that failed."""

_NOTICES = (
    ("preempted", "TRUE", "preempted"),
    ("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", "maintenance"),
)
"""Key under instance/, the value that announces the end, and the reason of the stop."""


def watch(tell: Callable[[str], None]) -> None:
    """Have `tell` called with the reason, from another thread, when this machine's end is near."""
    for notice in _NOTICES:
        threading.Thread(target=_watch, args=(*notice, tell), daemon=True).start()


def _watch(key: str, announces: str, reason: str, tell: Callable[[str], None]) -> None:
    etag, last = "0", ""
    while True:
        try:
            status, value, etag = _ask(key, etag)
        except (OSError, ValueError):
            status, value, etag = 0, "", "0"
        if status == 404:  # a metadata server that knows no such key, as inside GKE
            return
        if status == 200 and value == announces:
            tell(reason)
            return
        if status != 200 or value == last:  # which also tames a server that does not hold the question open
            time.sleep(RETRY_S if status != 200 else 1.0)
        last = value


def _ask(key: str, etag: str) -> Tuple[int, str, str]:
    """Status, value and the ETag to ask with next time."""
    import http.client

    server = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    path = f"/computeMetadata/v1/instance/{key}?timeout_sec={POLL_S}&last_etag={etag}&wait_for_change=true"
    connection = http.client.HTTPConnection(server, timeout=POLL_S + 30)
    try:
        connection.request("GET", path, headers={"Metadata-Flavor": "Google"})
        answer = connection.getresponse()
        value = answer.read(4096).decode("utf-8", "replace").strip()
        return answer.status, value, answer.getheader("ETag") or "0"
    except http.client.HTTPException as error:
        raise ValueError(str(error)) from error
    finally:
        connection.close()
