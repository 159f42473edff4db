"""A board in a bucket: the objects of one gang, below its attempt's prefix."""

from __future__ import annotations

import json
import os
import threading
import time
from functools import partial

from gputrain.entrypoint.cloud import LAST_S, Bucket, is_no_answer

from .errand import Errand
from .fence import MINE, Fence
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
    from typing import Any, Callable, Dict, Iterator, List, Optional

    from .journal import Journal

FIRST_S, EVERY_S = 2.0, 5.0
"""How often the bucket is asked."""

AT_ONCE_S = 3.0
"""How long the end of a VM whose plug is pulled waits for what is on its way."""

LOG_EVERY_S = 300.0
NONSENSE_TRIES = 5
"""How often the end is told to what answers, but not as a bucket does: the VM is paid meanwhile."""

BLOCK = 1 << 20
LOG_BYTES_S = 1 << 20
"""Of a long log, which is sent whole each time: so much of the network it may take in the mean."""


class StatusBucket:
    """Objects below a gang's prefix; a thread of its own speaks to the bucket, which may be slow or gone."""

    def __init__(self, job: Any, rank: int, journal: Journal) -> None:
        self._job, self._rank, self._journal = job, rank, journal
        self._bucket = Bucket(job["storage"], job["bucket"])
        self._folder = f"{job['folder']}{job['attempt']}/"
        self.fence = Fence(self._bucket, job["record"], job["attempt"])
        results = os.path.join(journal.home, "results")
        self._errand = Errand(self._bucket, self._folder, results, rank)
        self._word, self._absent = "", list(job["names"])
        self._patience = time.monotonic() + job["boot_wait_s"]
        self._due: Dict[str, Any] = {}
        self._told: Dict[str, Any] = {}
        self._said: Dict[str, str] = {}
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
        """The nodes of the gang that have not said a word yet. Their names are this attempt's alone."""
        return self._not_booted()

    def last(self, document: Dict[str, Any]) -> None:
        """As of `StatusBoard`; the log is whole in the bucket before the end is told, but not the result.

        Of a VM that is superseded nothing but its end is told.
        Where the bucket does not answer, or the plug is pulled in 30 s, the end goes first, and again after.
        """
        if document["why"] == ABSENT:
            document = {**document, "message": "{} never booted".format(", ".join(self._absent))}
        if document["message"]:
            self._journal.say(document["message"], "ERROR")
        self._is_over = True
        self._has_news.set()
        if self._thread.is_alive():
            self._thread.join(AT_ONCE_S if document["why"] in (HALTED, SHUTDOWN) else None)
        until, is_told = time.monotonic() + LAST_S, False
        if document["why"] in (HALTED, SHUTDOWN):
            is_told = self._tells(document)
        elif document.get("result"):  # a VM that is reclaimed while its log goes has done its work
            self._tells({**document, "phase": self._due.get("phase", WAITING)})
        while document["why"] != SUPERSEDED and not self._send_logs() and time.monotonic() < until:
            is_told = is_told or self._tells(document)
            time.sleep(EVERY_S)
        while not self._tells(document) and time.monotonic() < until:
            time.sleep(EVERY_S)

    def _tells(self, document: Dict[str, Any]) -> bool:
        self._due = {**document, "lost_lines": self._journal.lost_lines}
        return self._send()

    def _run(self) -> None:
        """Send what is new, the log where it has grown much or is old, and ask what is wanted of the job."""
        sent, size, pause_s = time.monotonic(), 0, FIRST_S
        while not self._is_over:
            self._send()
            if self._has_news.wait(pause_s):
                self._has_news.clear()
                continue
            pause_s = EVERY_S
            said = self._of_record()
            self._word = said if said == SUPERSEDED else self._word or said or self._ask()
            if self._word == SUPERSEDED:
                self._is_over = True
                return
            written = self._journal.offset
            pause = max(LOG_EVERY_S, written / LOG_BYTES_S)
            if written > 2 * size or (written > size and time.monotonic() > sent + pause):
                sent, size = time.monotonic(), written
                self._send_logs()

    def _send(self) -> bool:
        """Whether the document is there, or refused for good: a VM that waits for that bills on."""
        document = self._due
        if document is self._told:
            return True
        fault = self._fault("the bucket cannot be written, and is asked again", self._put, document)
        self._told = self._told if fault else document
        self._nonsense = self._nonsense + 1 if fault and not hasattr(fault, "code") else 0
        return not (is_no_answer(fault) or 0 < self._nonsense < NONSENSE_TRIES)

    def _put(self, document: Dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self._bucket.put(f"{self._folder}status-{self._rank}.json", body)
        why = document.get("why")
        if why in UNABLE and not (self._job["is_queued"] and why in TOO_EARLY):
            self._bucket.put(self._folder + "failed", body, if_generation="0")

    def _send_logs(self) -> bool:
        """Whether all are there that the bucket takes; where it does not answer the others are not tried."""
        for path, name in self._journal.files():
            if is_no_answer(self._fault(f"{name} could not be sent", self._put_log, path, name)):
                return False
        return True

    def _put_log(self, path: str, name: str) -> None:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            body, length = partial(_blocks, file, size), {"Content-Length": str(size)}
            self._bucket.put(self._folder + name, body, headers=length)

    def _fault(self, what: str, do: Callable[..., None], *args: Any) -> Optional[Exception]:
        """Do something; what kept it from being done is given back, and said once.

        Whatever it was: nobody else tells how far the job is, nor hears that it is to end.
        """
        try:
            do(*args)
        except Exception as error:  # noqa: BLE001  # see above
            if self._said.get(what) != str(error):
                self._journal.say(f"{what}: {error}", "ERROR")
            self._said[what] = str(error)
            return error
        self._said.pop(what, None)
        return None

    def _of_record(self) -> str:
        """Why the gang should stop, as the job's record tells."""
        said = self.fence.while_running()
        return "" if said == MINE else said

    def _ask(self) -> str:
        """Why the gang should stop, as the bucket tells."""
        try:
            self._errand.round()
            if self._bucket.exists(self._folder + "failed"):
                return PEER
            if self._absent:
                self._absent = self._not_booted()
            return ABSENT if self._absent and time.monotonic() > self._patience else ""
        except Exception:  # noqa: BLE001
            return ""  # without the network, or an answer that is none, the ranks go on; the time limit holds

    def _not_booted(self) -> List[str]:
        """The nodes of which there is no word."""
        there = self._bucket.list(self._folder + "status-")
        names = enumerate(self._job["names"])
        return [name for rank, name in names if f"{self._folder}status-{rank}.json" not in there]


def _blocks(file: Any, size: int) -> Iterator[bytes]:
    """So much of an open file, however long it has become. Raises ValueError: the disk gives less."""
    try:
        file.seek(0)
        while size:
            block = file.read(min(BLOCK, size))
            if not block:
                raise ValueError("it was made shorter while it was sent")
            size -= len(block)
            yield block
    except OSError as error:  # urllib would take it for the network's
        raise ValueError(str(error)) from error


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
