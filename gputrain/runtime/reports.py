"""What one node writes into the folder of its attempt in the bucket, and what it reads there.

``status-N.json`` is how far it has come, with its result at the end; ``logs/N-OFFSET`` is a part of its log;
``stacks-NONCE-N.json`` answers the request in ``stacks``; ``failed`` is of a node that could not begin.
The agent knows files only: it finds the request in its result folder.

A part of the log is named by where it begins. It is written again with what was added, until it holds
`LOG_PART_BYTES`; then the next one begins where it ends. So a reader knows the name of the next part, few
objects hold a long log, and a finished part never changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import contract, host
from .cloud import LAST_S, Bucket, is_no_answer
from .fence import MINE, Fence
from .supervisor import ENDING_S, Site, Supervisor

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


MOST_BYTES = 4 << 20
"""Of one part, of a node that writes much between two looks."""


class NodeLog:
    """What one node writes, in whole lines."""

    def __init__(self, home: str, rank: int) -> None:
        self.home = home
        self.lost_lines = 0
        self.last = b""
        """The last line that an agent wrote."""
        self._rank = rank
        self.path = os.path.join(home, "node.log")
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  # until the end
        self._size = self._first = os.path.getsize(self.path)
        self._begins_at: int | None = None
        """Where the file begins in the node's log: a container that is started again has another file."""
        self._part_at, self._part = 0, b""
        self._writing = threading.Lock()

    def say(self, message: str, severity: str = "INFO") -> None:
        """A line of the supervisor's own, which its machine's console shows too."""
        line = {"severity": severity, "message": "gputrain: " + message, "node": self._rank}
        self._write(json.dumps(line).encode() + b"\n")
        sys.stderr.write(f"gputrain: {message}\n")

    def hear(self, lines: bytes) -> None:
        """Whole lines of an agent's."""
        self.last = lines.rstrip(b"\n").rpartition(b"\n")[2]
        self._write(lines)

    def _write(self, lines: bytes) -> None:
        with self._writing:
            try:
                taken = self._file.write(lines) or 0
            except OSError:
                taken = 0
            self._size += taken
            self.lost_lines += lines[taken:].count(b"\n")  # a full disk: the ranks keep running

    @property
    def has_more(self) -> bool:
        """Whether something has not been sent yet."""
        return self._begins_at is None or self._begins_at + self._size > self._part_at + len(self._part)

    def send(self, bucket: Bucket, folder: str) -> None:
        """Send what is new. Raises OSError or ValueError: the rest comes with the next call."""
        if self._begins_at is None:
            self._resume(bucket, folder)
        assert self._begins_at is not None
        while True:
            sent = self._part_at + len(self._part)
            data = self._read(sent - self._begins_at, MOST_BYTES - len(self._part))
            if not data:
                return
            part = self._part + data
            bucket.put(folder + contract.LOG_PART.format(node_rank=self._rank, offset=self._part_at), part)
            is_full = len(part) >= contract.LOG_PART_BYTES
            self._part_at, self._part = (self._part_at + len(part), b"") if is_full else (self._part_at, part)

    def _resume(self, bucket: Bucket, folder: str) -> None:
        """Continue after what an earlier start of this node has sent."""
        prefix = folder + contract.LOG_PART.partition("{offset")[0].format(node_rank=self._rank)
        last = max(bucket.list(prefix), default="")
        if last:
            self._part_at, self._part = int(last[len(prefix) :]), bucket.get(last) or b""
        sent = self._part_at + len(self._part)
        if len(self._part) >= contract.LOG_PART_BYTES:
            self._part_at, self._part = sent, b""
        self._begins_at = 0 if self._first else sent

    def _read(self, offset: int, most: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(offset)
            data = file.read(min(most, self._size - offset))
        return data[: data.rfind(b"\n") + 1] or data


def start(
    supervisor: Supervisor,
    words: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    take: Callable[[bytes], Any],
    ended: Callable[[], Any] = lambda: None,
) -> tuple[int, threading.Thread]:
    """Start a child, whose output a thread takes in whole lines; raises as `Supervisor.start`."""
    read, write = os.pipe()

    def run() -> None:
        rest = b""
        while data := os.read(read, 1 << 16):
            lines, end, rest = (rest + data).rpartition(b"\n")
            if end:
                take(lines + end)
        if rest:
            take(rest + b"\n")
        os.close(read)
        ended()

    thread = threading.Thread(target=run, name="gputrain-lines", daemon=True)
    thread.start()
    try:
        return supervisor.start(words, env, folder, write), thread
    finally:
        os.close(write)


class NodeReports:
    """The objects of one node, as of `StatusBoard`: a thread of its own speaks to the bucket, which may be
    slow or gone. What keeps a call from being done is logged once.
    """

    waits_s = CONTAINER_LAST_S
    """How long the end waits for a bucket that does not answer."""

    def __init__(self, bucket: Bucket, folder: str, fence: Fence, log: NodeLog, rank: int) -> None:
        self.bucket, self.folder, self.fence, self.log, self.rank = bucket, folder, fence, log, rank
        self.results = os.path.join(log.home, "results")
        """The agent's result folder."""
        self._asked: Any = None
        self._next_log_at = 0.0
        self._said: dict[str, str] = {}
        self._reason = ""
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

    def last(self, document: dict[str, Any]) -> None:
        """As of `StatusBoard`: the log is whole in the bucket before the end is, but not the result.

        Of a node that is superseded only its end is written. Where the bucket does not answer, or the plug is
        pulled in 30 s, the end goes first.
        """
        why = document["why"]
        if document["message"]:
            self.log.say(document["message"], "ERROR")
        self._is_over = True
        self._has_news.set()
        is_hasty = why in (contract.HALTED, contract.SHUTDOWN)
        if self._thread.is_alive():
            self._thread.join(AT_ONCE_S if is_hasty else None)
        until, is_sent = time.monotonic() + self.waits_s, is_hasty and self._sends(document)
        if document.get("result") and not is_hasty:  # a VM that is reclaimed from here on has done its work
            self._sends({**document, "phase": self._due.get("phase", contract.WAITING)})
        while why != contract.SUPERSEDED and is_no_answer(self._send_log()) and time.monotonic() < until:
            is_sent = is_sent or self._sends(document)
            time.sleep(EVERY_S)
        while not self._sends({**document}) and time.monotonic() < until:
            time.sleep(EVERY_S)

    def _run(self) -> None:
        """Send what is new, and ask what is wanted of the job."""
        ask_at = time.monotonic() + FIRST_S
        while not self._is_over:
            self._sends(self._due)
            if self.log.has_more and time.monotonic() >= self._next_log_at:
                self._next_log_at = time.monotonic() + EVERY_S
                self._send_log()
            if self._has_news.wait(TICK_S):
                self._has_news.clear()
            if time.monotonic() < ask_at:
                continue
            ask_at = time.monotonic() + EVERY_S
            says = self.fence.while_running()
            if says == contract.SUPERSEDED:
                self._reason, self._is_over = contract.SUPERSEDED, True
                return
            self._reason = self._reason or ("" if says == MINE else says) or self._ask()

    def _sends(self, document: dict[str, Any]) -> bool:
        """Whether the document is there, or refused for good: a machine that waits for that bills on."""
        self._due = document
        if document is self._shown:
            return True
        what = "the bucket cannot be written, and is asked again"
        fault = self._fault(what, self._put_status, document) or self._warn_peers(document)
        self._shown = self._shown if fault else document
        return not is_no_answer(fault)

    def _put_status(self, document: Mapping[str, Any]) -> None:
        whole = {**document, "lost_lines": self.log.lost_lines}
        self.bucket.put(f"{self.folder}status-{self.rank}.json", json.dumps(whole).encode())

    def _send_log(self) -> Exception | None:
        return self._fault("the log could not be sent", self.log.send, self.bucket, self.folder)

    def _warn_peers(self, document: dict[str, Any]) -> Exception | None:  # noqa: ARG002  # a VM does
        return None

    def _ask(self) -> str:
        """Why the node should stop, besides what the record says."""
        with contextlib.suppress(Exception):  # no network or no answer: the ranks keep running
            self._answer()
        return ""

    def _answer(self) -> None:
        """Look once whether stacks are requested, and wait a moment for the answer. Raises OSError."""
        asked = self.bucket.get(self.folder + contract.STACKS_ASK)
        if asked is None or asked == self._asked:
            return
        self._asked, nonce = asked, asked[:100].decode("ascii", "replace").strip()
        if not re.fullmatch(contract.STACKS_NONCE, nonce):
            return
        os.makedirs(self.results, exist_ok=True)
        host.put(os.path.join(self.results, contract.STACKS_ASK), nonce)
        name = contract.STACKS_FILE.format(nonce=nonce, node_rank=self.rank)
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(self.results, name), "rb") as file:
                    self.bucket.put(self.folder + name, file.read())
                return
            time.sleep(0.1)

    def result(self) -> Any:
        """The agent's result; None: it has left none."""
        return host.read_json(os.path.join(self.results, contract.RESULT_FILE.format(node_rank=self.rank)))

    def _fault(self, what: str, do: Callable[..., Any], *args: Any) -> Exception | None:
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


class NodeSite(Site):
    """Where the agent of one node runs, which reports to the bucket."""

    def __init__(self, reports: NodeReports, env: Mapping[str, Any]) -> None:
        super().__init__(env, ENDING_S)
        self.reports = reports
        self.agent, self.lines = 0, threading.Thread()

    def run_agent(
        self, supervisor: Supervisor, words: Sequence[str], env: Mapping[str, str], folder: str
    ) -> dict[int, int]:
        """Start it, as of `Site.start`."""
        self.agent, self.lines = start(supervisor, words, env, folder, self.hear)
        return {self.agent: self.reports.rank}

    def hear(self, lines: bytes) -> None:
        """Whole lines of the agent's."""
        self.reports.log.hear(lines)


class VmReports(NodeReports):
    """A VM's: one that cannot begin warns its peers, and looks for those that never booted."""

    waits_s = LAST_S

    def __init__(self, job: Any, rank: int, log: NodeLog) -> None:
        bucket = Bucket(job["storage"], job["bucket"])
        fence = Fence(bucket, job["record"], job["attempt"])
        super().__init__(bucket, f"{job['folder']}{job['attempt']}/", fence, log, rank)
        self._job, self._absent = job, list(job["names"])
        self._patience = time.monotonic() + job["boot_wait_s"]

    def last(self, document: dict[str, Any]) -> None:
        if document["why"] == contract.ABSENT:
            document = {**document, "message": "{} never booted".format(", ".join(self._absent))}
        super().last(document)

    def silent(self) -> list[str]:
        """The nodes of the attempt that have written nothing yet. Their names are this attempt's alone."""
        there = self.bucket.list(self.folder + "status-")
        names = enumerate(self._job["names"])
        return [name for rank, name in names if f"{self.folder}status-{rank}.json" not in there]

    def _warn_peers(self, document: dict[str, Any]) -> Exception | None:
        """Have the other nodes end where this one could not begin."""
        why = document.get("why")
        if why not in contract.UNABLE or (self._job["is_queued"] and why in contract.TOO_EARLY):
            return None
        body, name = json.dumps(document).encode(), self.folder + "failed"
        return self._fault("the other nodes cannot be warned", self.bucket.put, name, body, "0")

    def _ask(self) -> str:
        try:
            self._answer()
            if self.bucket.metadata_of(self.folder + "failed") is not None:
                return contract.PEER
            if self._absent:
                self._absent = self.silent()
            return contract.ABSENT if self._absent and time.monotonic() > self._patience else ""
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
