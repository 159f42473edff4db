"""What one node writes into the folder of its attempt in the bucket, and what it reads there.

``status-N.json`` is how far it has come, with its result at the end; ``logs/N-OFFSET`` is its log;
``stacks-NONCE-N.json`` answers the request in ``stacks``; ``failed`` is of a node that could not begin.
The agent knows files only: it finds the request, and what the job's record says, in its result folder.
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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gputrain.entrypoint import contract, host, processes
from gputrain.entrypoint.cloud import LAST_S, Bucket, is_no_answer

from .fence import MINE, Fence
from .log import NodeLog, follow
from .status import (
    ABSENT,
    ENDED,
    HALTED,
    PEER,
    RUNNING,
    SCHEMA,
    SHUTDOWN,
    SUPERSEDED,
    TOO_EARLY,
    UNABLE,
    WAITING,
    now,
)  # fmt: skip

FIRST_S = 2.0
"""How soon the bucket is asked at first."""

TICK_S = 1.0
"""How soon a line is sent that comes after a silence."""

EVERY_S = 5.0
"""How often the log is sent and the bucket asked: 17,280 times a day, for some 15 cents of a node that writes
all day, and 2 of one that is silent."""

ANSWER_S = 3.0
"""How long an agent may take: it looks every half second, and takes stacks for 1.5 s at most."""

AT_ONCE_S = 3.0
"""How long the end of a VM whose plug is pulled waits for what is on its way."""

CONTAINER_LAST_S = 60.0
"""How long the end of a container waits for a bucket that does not answer: its platform knows the end."""

LINES_S = 10.0
"""How long the last lines of an agent that has ended may take, should somebody else hold its output open."""


class NodeReports:
    """The objects of one node. Calls give back what kept them from being done, and log it once."""

    def __init__(self, bucket: Bucket, folder: str, fence: Fence, log: NodeLog, rank: int) -> None:
        self.bucket, self.folder, self.fence, self.log, self.rank = bucket, folder, fence, log, rank
        self.results = os.path.join(log.home, "results")
        """The agent's result folder."""
        self._asked: Any = None
        self._next_log_at = 0.0
        self._said: dict[str, str] = {}

    def send_status(self, document: Mapping[str, Any]) -> Exception | None:
        """Write how far the node has come."""
        return self.fault("the bucket cannot be written, and is asked again", self._put_status, document)

    def _put_status(self, document: Mapping[str, Any]) -> None:
        whole = {**document, "lost_lines": self.log.lost_lines}
        self.bucket.put(f"{self.folder}status-{self.rank}.json", json.dumps(whole).encode())

    def send_log(self) -> Exception | None:
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
        self._asked, nonce = asked, asked[:100].decode("ascii", "replace").strip()
        if not re.fullmatch(contract.STACKS_NONCE, nonce):
            return
        self.pass_on(contract.STACKS_ASK, nonce)
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

    def pass_on(self, name: str, text: str) -> None:
        """Leave a file for the agent."""
        os.makedirs(self.results, exist_ok=True)
        host.put(os.path.join(self.results, name), text)

    def result(self) -> Any:
        """The agent's result: its file, or its last line where ranks removed that; None: nothing."""
        head, _, text = self.log.last.partition(contract.RESULT_MARKER.encode())
        path = os.path.join(self.results, contract.RESULT_FILE.format(node_rank=self.rank))
        with contextlib.suppress(OSError), open(path, "rb") as file:
            head, text = b"", file.read()
        with contextlib.suppress(ValueError):
            return None if head else json.loads(text)
        return None

    def fault(self, what: str, do: Callable[..., Any], *args: Any) -> Exception | None:
        """Do something; what kept it from being done, of any kind: the job's end must not hang on it."""
        try:
            do(*args)
        except Exception as error:  # noqa: BLE001  # see above
            if self._said.get(what) != str(error):
                self.log.say(f"{what}: {error}", "ERROR")
            self._said[what] = str(error)
            return error
        self._said.pop(what, None)
        return None


class VmReports(NodeReports):
    """A VM's, as of `StatusBoard`; a thread of its own speaks to the bucket, which may be slow or gone."""

    def __init__(self, job: Any, rank: int, log: NodeLog) -> None:
        bucket = Bucket(job["storage"], job["bucket"])
        fence = Fence(bucket, job["record"], job["attempt"])
        super().__init__(bucket, f"{job['folder']}{job['attempt']}/", fence, log, rank)
        self._job = job
        self._reason, self._absent = "", list(job["names"])
        self._patience = time.monotonic() + job["boot_wait_s"]
        self._due: dict[str, Any] = {}
        self._shown: dict[str, Any] = {}
        self._is_over = False
        self._has_news = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gputrain-reports", daemon=True)

    def show(self, document: dict[str, Any]) -> None:
        """As of `StatusBoard`."""
        self._due = document
        if not self._thread.is_alive() and not self._is_over:
            self._thread.start()
        self._has_news.set()

    def wants(self) -> str:
        """As of `StatusBoard`."""
        return self._reason

    def silent(self) -> list[str]:
        """The nodes of the attempt that have written nothing yet. Their names are this attempt's alone."""
        there = self.bucket.list(self.folder + "status-")
        names = enumerate(self._job["names"])
        return [name for rank, name in names if f"{self.folder}status-{rank}.json" not in there]

    def last(self, document: dict[str, Any]) -> None:
        """As of `StatusBoard`: the log is whole in the bucket before the end is, but not the result.

        Of a VM that is superseded only its end is written. Where the bucket does not answer, or the plug is
        pulled in 30 s, the end goes first.
        """
        why = document["why"]
        if why == ABSENT:
            document = {**document, "message": "{} never booted".format(", ".join(self._absent))}
        if document["message"]:
            self.log.say(document["message"], "ERROR")
        self._is_over = True
        self._has_news.set()
        is_hasty = why in (HALTED, SHUTDOWN)
        if self._thread.is_alive():
            self._thread.join(AT_ONCE_S if is_hasty else None)
        until, is_sent = time.monotonic() + LAST_S, is_hasty and self._sends(document)
        if document.get("result") and not is_hasty:  # a VM that is reclaimed from here on has done its work
            self._sends({**document, "phase": self._due.get("phase", WAITING)})
        while why != SUPERSEDED and is_no_answer(self.send_log()) and time.monotonic() < until:
            is_sent = is_sent or self._sends(document)
            time.sleep(EVERY_S)
        while not self._sends({**document}) and time.monotonic() < until:
            time.sleep(EVERY_S)

    def _run(self) -> None:
        """Send what is new, and ask what is wanted of the job."""
        ask_at = time.monotonic() + FIRST_S
        while not self._is_over:
            self._sends(self._due)
            self.keep_up()
            if self._has_news.wait(TICK_S):
                self._has_news.clear()
            if time.monotonic() < ask_at:
                continue
            ask_at = time.monotonic() + EVERY_S
            says = self.fence.while_running()
            if says == SUPERSEDED:
                self._reason, self._is_over = SUPERSEDED, True
                return
            self._reason = self._reason or ("" if says == MINE else says) or self._ask()

    def _sends(self, document: dict[str, Any]) -> bool:
        """Whether the document is there, or refused for good: a VM that waits for that bills on."""
        self._due = document
        if document is self._shown:
            return True
        fault = self.send_status(document) or self._warn_peers(document)
        self._shown = self._shown if fault else document
        return not is_no_answer(fault)

    def _warn_peers(self, document: dict[str, Any]) -> Exception | None:
        """Have the other nodes end where this one could not begin."""
        why = document.get("why")
        if why not in UNABLE or (self._job["is_queued"] and why in TOO_EARLY):
            return None
        body = json.dumps(document).encode()
        return self.fault(
            "the other nodes cannot be warned", self.bucket.put, self.folder + "failed", body, "0"
        )

    def _ask(self) -> str:
        """Why the nodes should stop, by the bucket."""
        try:
            self.answer()
            if self.bucket.metadata_of(self.folder + "failed") is not None:
                return PEER
            if self._absent:
                self._absent = self.silent()
            return ABSENT if self._absent and time.monotonic() > self._patience else ""
        except Exception:  # noqa: BLE001
            return ""  # no network or no answer: the ranks keep running; the time limit holds


def right_to(job: Any, bucket: str = "", prefix: str = "") -> str:
    """What an account needs that writes below a prefix and no more; below the jobs', where that holds it."""
    jobs = str(job["folder"]).partition(f"{job['job_id']}/")[0]
    if not bucket or (bucket == job["bucket"] and prefix.startswith(jobs)):
        bucket, prefix = job["bucket"], jobs
    condition = f"resource.name.startsWith('projects/_/buckets/{bucket}/objects/{prefix}')"
    return (
        f"roles/storage.objectViewer on gs://{bucket}, and roles/storage.objectUser there under the"
        f" condition {condition}"
    )


class ContainerReports(NodeReports):
    """Those of a container on Vertex AI, whose first process runs the agent and reports for it."""

    _document: Mapping[str, Any] = {}

    def run(self, argv: Sequence[str]) -> int:
        """Run the agent to its end; its exit code."""
        endings: dict[int, processes.Ending] = {}
        has_ended = threading.Event()
        processes.hold_signals()
        self._show(RUNNING)
        out, lines = follow(self._hear)
        pid = processes.start(argv, os.environ, out=out)
        os.close(out)
        beat = threading.Thread(target=self._report, args=(has_ended,), name="gputrain-reports", daemon=True)
        beat.start()
        while pid not in endings:
            if processes.wait(1.0):
                processes.send([pid], signal.SIGTERM)
            endings.update(processes.reap())
        lines.join(LINES_S)
        has_ended.set()
        beat.join(CONTAINER_LAST_S)
        ending = endings[pid]
        code = contract.BY_SIGNAL + ending.signal if ending.signal else ending.exit_code or 0
        self.end(code)
        return code

    def end(self, code: int, why: str = "") -> None:
        """Send the rest of the log, and then the end; nothing else where another attempt trains."""
        if why:
            self.log.say(why, "ERROR")
        until = time.monotonic() + CONTAINER_LAST_S
        if self._says() != SUPERSEDED:
            while is_no_answer(self.send_log()) and time.monotonic() < until:
                time.sleep(EVERY_S)
        self._show(ENDED, exit_code=code, result=self.result())

    def _show(self, phase: str, **more: Any) -> None:
        who = {"schema": SCHEMA, "node_rank": self.rank, "why": "", "message": ""}
        self._document = {**who, **self._document, **more, "phase": phase, f"{phase}_at": now()}
        self.send_status(self._document)

    def _hear(self, lines: bytes) -> None:
        self.log.hear(lines)
        with contextlib.suppress(OSError):  # the platform's own log
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()

    def _report(self, has_ended: threading.Event) -> None:
        ask_at, says = 0.0, MINE
        while not has_ended.wait(TICK_S):
            if time.monotonic() >= ask_at:
                ask_at, says = time.monotonic() + EVERY_S, self._says()
                with contextlib.suppress(Exception):  # without the network there is no answer
                    self.answer()
            if says != SUPERSEDED:
                self.keep_up()

    def _says(self) -> str:
        """What the job's record says; the agent finds it in its result folder."""
        says = self.fence.while_running()
        if says != MINE:
            self.pass_on(contract.RECORD_SAYS, says)
        return says
