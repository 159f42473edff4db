"""The board of a VM in its job's bucket: its own reports, and why the nodes of its attempt should stop."""

from __future__ import annotations

import json
import threading
import time

from gputrain.entrypoint.cloud import LAST_S, Bucket, is_no_answer

from .fence import MINE, Fence
from .reports import EVERY_S, TICK_S, NodeReports
from .status import (
    ABSENT,
    HALTED,
    PEER,
    SHUTDOWN,
    SUPERSEDED,
    TOO_EARLY,
    UNABLE,
    WAITING,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from .log import NodeLog

FIRST_S = 2.0
"""How soon the bucket is asked at first."""

AT_ONCE_S = 3.0
"""How long the end of a VM whose plug is pulled waits for what is on its way."""

NONSENSE_TRIES = 5
"""How often the end is told to what answers, but not as a bucket does: the VM is paid meanwhile."""


class StatusBucket:
    """As of `StatusBoard`; a thread of its own speaks to the bucket, which may be slow or gone."""

    def __init__(self, job: Any, rank: int, log: NodeLog) -> None:
        self._job, self._rank, self._log = job, rank, log
        self._bucket = Bucket(job["storage"], job["bucket"])
        self._folder = f"{job['folder']}{job['attempt']}/"
        self.fence = Fence(self._bucket, job["record"], job["attempt"])
        self.reports = NodeReports(self._bucket, self._folder, self.fence, log, rank)
        self._word, self._absent = "", list(job["names"])
        self._patience = time.monotonic() + job["boot_wait_s"]
        self._due: Dict[str, Any] = {}
        self._told: Dict[str, Any] = {}
        self._nonsense = 0
        self._is_over = False
        self._has_news = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gputrain-board", daemon=True)

    def tell(self, document: Dict[str, Any]) -> None:
        """As of `StatusBoard`."""
        self._due = document
        if not self._thread.is_alive() and not self._is_over:
            self._thread.start()
        self._has_news.set()

    def word(self) -> str:
        """As of `StatusBoard`."""
        return self._word

    def silent(self) -> List[str]:
        """The nodes of the attempt that have written nothing yet. Their names are this attempt's alone."""
        there = self._bucket.list(self._folder + "status-")
        names = enumerate(self._job["names"])
        return [name for rank, name in names if f"{self._folder}status-{rank}.json" not in there]

    def last(self, document: Dict[str, Any]) -> None:
        """As of `StatusBoard`; the log is whole in the bucket before the end is told, but not the result.

        Of a VM that is superseded nothing but its end is told.
        Where the bucket does not answer, or the plug is pulled in 30 s, the end goes first, and again after.
        """
        why = document["why"]
        if why == ABSENT:
            document = {**document, "message": "{} never booted".format(", ".join(self._absent))}
        if document["message"]:
            self._log.say(document["message"], "ERROR")
        self._is_over = True
        self._has_news.set()
        is_hasty = why in (HALTED, SHUTDOWN)
        if self._thread.is_alive():
            self._thread.join(AT_ONCE_S if is_hasty else None)
        until, is_told = time.monotonic() + LAST_S, is_hasty and self._sends(document)
        if (
            document.get("result") and not is_hasty
        ):  # a VM that is reclaimed while its log goes has done its work
            self._sends({**document, "phase": self._due.get("phase", WAITING)})
        while why != SUPERSEDED and is_no_answer(self.reports.send_log()) and time.monotonic() < until:
            is_told = is_told or self._sends(document)
            time.sleep(EVERY_S)
        while not self._sends({**document}) and time.monotonic() < until:
            time.sleep(EVERY_S)

    def _run(self) -> None:
        """Send what is new, and ask what is wanted of the job."""
        ask_at = time.monotonic() + FIRST_S
        while not self._is_over:
            self._sends(self._due)
            self.reports.keep_up()
            if self._has_news.wait(TICK_S):
                self._has_news.clear()
            if time.monotonic() < ask_at:
                continue
            ask_at = time.monotonic() + EVERY_S
            said = self.fence.while_running()
            if said == SUPERSEDED:
                self._word, self._is_over = SUPERSEDED, True
                return
            self._word = self._word or ("" if said == MINE else said) or self._ask()

    def _sends(self, document: Dict[str, Any]) -> bool:
        """Whether the document is there, or refused for good: a VM that waits for that bills on."""
        self._due = document
        if document is self._told:
            return True
        fault = self.reports.send_status(document) or self._warn_peers(document)
        self._told = self._told if fault else document
        self._nonsense = self._nonsense + 1 if fault and not hasattr(fault, "code") else 0
        return not (is_no_answer(fault) or 0 < self._nonsense < NONSENSE_TRIES)

    def _warn_peers(self, document: Dict[str, Any]) -> Any:
        """Have the other nodes end where this one could not begin."""
        why = document.get("why")
        if why not in UNABLE or (self._job["is_queued"] and why in TOO_EARLY):
            return None
        body = json.dumps(document).encode()
        name = self._folder + "failed"
        return self.reports.fault("the other nodes cannot be warned", self._bucket.put, name, body, "0")

    def _ask(self) -> str:
        """Why the nodes should stop, as the bucket tells."""
        try:
            self.reports.answer()
            if self._bucket.exists(self._folder + "failed"):
                return PEER
            if self._absent:
                self._absent = self.silent()
            return ABSENT if self._absent and time.monotonic() > self._patience else ""
        except Exception:  # noqa: BLE001
            return ""  # without the network, or an answer that is none, the ranks go on; the time limit holds


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
