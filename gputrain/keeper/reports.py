"""What one node writes into the folder of its attempt in the bucket, and what it is asked there.

``status-N.json`` is how far it has come, with its result at the end; ``logs/N-OFFSET`` is its log, and
``stacks-NONCE-N.json`` answers the question in ``stacks``. The agent knows files only: it finds the question,
and what the job's record says, in its result folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
import time

from gputrain.entrypoint import contract, host, processes
from gputrain.entrypoint.cloud import Bucket, is_no_answer

from .fence import MINE, Fence
from .log import NodeLog, follow
from .status import ENDED, RUNNING, SCHEMA, SUPERSEDED, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Mapping, Optional, Sequence

TICK_S = 1.0
"""How soon a line is sent that comes after a silence."""

EVERY_S = 5.0
"""How often the log is sent and the bucket asked: 17,280 times a day, for some 15 cents of a node that writes
all day, and 2 of one that is silent."""

ANSWER_S = 3.0
"""How long an agent may take: it looks every half second, and takes stacks for 1.5 s at most."""

LAST_S = 60.0
"""How long the end of a container waits for a bucket that does not answer: its platform knows the end."""

LINES_S = 10.0
"""How long the last lines of an agent that has ended may take, should somebody else hold its output open."""


class NodeReports:
    """The objects of one node. Calls give back what kept them from being done, and say it in the log once."""

    def __init__(self, bucket: Bucket, folder: str, fence: Fence, log: NodeLog, rank: int) -> None:
        self.bucket, self.folder, self.fence, self.log, self.rank = bucket, folder, fence, log, rank
        self.results = os.path.join(log.home, "results")
        """The agent's result folder."""
        self._asked: Any = None
        self._next_log_at = 0.0
        self._said: Dict[str, str] = {}

    def send_status(self, document: Mapping[str, Any]) -> Optional[Exception]:
        """Write how far the node has come."""
        return self.fault("the bucket cannot be written, and is asked again", self._put_status, document)

    def _put_status(self, document: Mapping[str, Any]) -> None:
        whole = {**document, "lost_lines": self.log.lost_lines}
        self.bucket.put(f"{self.folder}status-{self.rank}.json", json.dumps(whole).encode())

    def send_log(self) -> Optional[Exception]:
        """Send what the log has more."""
        return self.fault("the log could not be sent", self.log.send, self.bucket, self.folder)

    def keep_up(self) -> None:
        """Send what the log has more, if that is due."""
        if self.log.has_more and time.monotonic() >= self._next_log_at:
            self._next_log_at = time.monotonic() + EVERY_S
            self.send_log()

    def answer(self) -> None:
        """Look once whether stacks are asked for, and wait a moment for the answer. Raises OSError."""
        asked = self.bucket.get(self.folder + contract.STACKS_ASK)
        if asked is None or asked == self._asked:
            return
        self._asked = asked
        nonce = asked[:100].decode("ascii", "replace").strip()
        if not re.fullmatch(contract.STACKS_NONCE, nonce):
            return
        os.makedirs(self.results, exist_ok=True)
        host.put(os.path.join(self.results, contract.STACKS_ASK), nonce)
        name, until = (
            contract.STACKS_FILE.format(nonce=nonce, node_rank=self.rank),
            time.monotonic() + ANSWER_S,
        )
        while time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(self.results, name), "rb") as file:
                    self.bucket.put(self.folder + name, file.read())
                return
            time.sleep(0.1)

    def result(self) -> Any:
        """What the agent found out: in its file, or its last line where ranks removed that; None: nothing."""
        head, _, told = self.log.last.partition(contract.RESULT_MARKER.encode())
        path = os.path.join(self.results, contract.RESULT_FILE.format(node_rank=self.rank))
        with contextlib.suppress(OSError), open(path, "rb") as file:
            head, told = b"", file.read()
        with contextlib.suppress(ValueError):
            return None if head else json.loads(told)
        return None

    def fault(self, what: str, do: Callable[..., Any], *args: Any) -> Optional[Exception]:
        """Do something; what kept it from being done, whichever it was: the job's end must not hang on it."""
        try:
            do(*args)
        except Exception as error:  # noqa: BLE001  # see above
            if self._said.get(what) != str(error):
                self.log.say(f"{what}: {error}", "ERROR")
            self._said[what] = str(error)
            return error
        self._said.pop(what, None)
        return None


class Container:
    """The first process of a container on Vertex AI: it runs the agent, and reports for it."""

    def __init__(self, reports: NodeReports) -> None:
        self._reports = reports
        self._document: Dict[str, Any] = {
            "schema": SCHEMA,
            "node_rank": reports.rank,
            "why": "",
            "message": "",
        }
        self._has_ended = threading.Event()

    def run(self, argv: Sequence[str]) -> int:
        """Run the agent to its end; its exit code."""
        reports = self._reports
        endings: Dict[int, processes.Ending] = {}
        processes.hold_signals()
        self._tell(RUNNING)
        out, lines = follow(self._hear)
        pid = processes.start(argv, os.environ, os.getcwd(), out)
        os.close(out)
        beat = threading.Thread(target=self._report, name="gputrain-reports", daemon=True)
        beat.start()
        while pid not in endings:
            if processes.wait(1.0):
                processes.tell([pid], signal.SIGTERM)
            endings.update(processes.reap())
        lines.join(LINES_S)
        self._has_ended.set()
        beat.join(LAST_S)
        ending = endings[pid]
        code = contract.BY_SIGNAL + ending.signal if ending.signal else ending.exit_code or 0
        self.end(code, reports.result())
        return code

    def refuse(self, code: int, why: str) -> None:
        """Report that the agent could not be started."""
        self._reports.log.say(why, "ERROR")
        self.end(code, self._reports.result())

    def end(self, code: int, result: Any) -> None:
        """Send the rest of the log, and then the end; nothing where another attempt trains."""
        until = time.monotonic() + LAST_S
        if self._says() != SUPERSEDED:
            while is_no_answer(self._reports.send_log()) and time.monotonic() < until:
                time.sleep(EVERY_S)
        self._tell(ENDED, exit_code=code, result=result)

    def _tell(self, phase: str, **more: Any) -> None:
        self._document = {**self._document, **more, "phase": phase, f"{phase}_at": now()}
        self._reports.send_status(self._document)

    def _hear(self, lines: bytes) -> None:
        self._reports.log.hear(lines)
        with contextlib.suppress(OSError):  # the platform's own log
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()

    def _report(self) -> None:
        reports, ask_at, says = self._reports, 0.0, MINE
        while not self._has_ended.wait(TICK_S):
            if time.monotonic() >= ask_at:
                ask_at, says = time.monotonic() + EVERY_S, self._says()
                with contextlib.suppress(Exception):  # without the network nobody asks
                    reports.answer()
            if says != SUPERSEDED:
                reports.keep_up()

    def _says(self) -> str:
        """What the job's record says; the agent finds it in its result folder."""
        says = self._reports.fence.while_running()
        if says != MINE:
            os.makedirs(self._reports.results, exist_ok=True)
            host.put(os.path.join(self._reports.results, contract.RECORD_SAYS), says)
        return says
