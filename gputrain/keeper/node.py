"""What a VM of the gang knows of itself, and how it tells: by objects and on its serial port."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time

from .cloud import Bucket, metadata
from .serial import Serial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROOT = "/var/lib/gputrain"


class Running(Exception):
    """The startup script was started once more while it runs: by hand, as the boot does so once."""


class ThisVm:
    """What this VM knows of itself, and how it tells."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.name = metadata("name")
        self.rank = job["names"].index(self.name)
        self.folder = f"{job['folder']}{job['attempt']}/"
        self.home = os.path.join(ROOT, job["job_id"], str(job["attempt"]))
        self.log_path = os.path.join(self.home, "agent.log")
        self.bucket = Bucket(job["storage"], job["bucket"])
        self.status = {
            "node_rank": self.rank,
            "attempt": job["attempt"],
            "vm_id": metadata("id"),
            "zone": job["zone"],
        }
        self.token = ""
        self.word = ""
        self.absent = ", ".join(job["names"])
        self.patience = time.monotonic() + job["boot_wait_s"]
        self.lost_lines = 0
        self.serial = Serial()
        self.writing = threading.Lock()
        os.makedirs(os.path.join(self.home, "tmp"), exist_ok=True)
        self.log = open(self.log_path, "ab", buffering=0)  # noqa: SIM115  # until the end
        self.offset = os.path.getsize(self.log_path)

    def was_here(self) -> bool:
        """Whether this VM has booted for this attempt before. Raises Running where it still runs it."""
        self.booted = os.open(os.path.join(self.home, "booted"), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self.booted, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends
        except OSError:
            raise Running from None
        was_here = os.fstat(self.booted).st_size > 0
        os.write(self.booted, b"x")
        return was_here

    def holds_lock(self) -> bool:
        """Whether the job belongs to this gang. The first VM to come decides, for its whole zone."""
        mine = {"zone": self.job["zone"], "token": os.urandom(32).hex()}
        name = self.folder + "lock"
        absent = self.bucket.put(name, json.dumps(mine).encode(), only_if_absent=True)
        held = mine if absent else json.loads(self.bucket.get(name))
        self.token = held["token"]
        return bool(held["zone"] == self.job["zone"])

    def tell(self, phase: str, **more: Any) -> None:
        """Write how far this node has come; what cannot be written is said on the serial port."""
        self.status.update(more, phase=phase)
        self.status[phase + "_at"] = now()
        body = json.dumps(self.status).encode()
        try:
            self.bucket.put(f"{self.folder}status-{self.rank}.json", body)
            if more.get("why") in ("absent", "boot", "restarted"):
                self.bucket.put(self.folder + "failed", body, only_if_absent=True)
        except OSError as error:
            self.say(f"the bucket cannot be written: {error}", "ERROR")

    def gang_ends(self) -> str:
        """Why the gang should stop, as the bucket tells; empty while it should not."""
        try:
            if self.bucket.exists(self.job["cancel"]):
                return "cancelled"
            if self.bucket.exists(self.folder + "failed"):
                return "peer"
            if self.absent:
                self.absent = self.not_booted()
            return "absent" if self.absent and time.monotonic() > self.patience else ""
        except OSError:
            return ""  # without the network the ranks go on; the time limit holds

    def not_booted(self) -> str:
        """The nodes of the gang that have not said a word yet."""
        there = self.bucket.list(self.folder + "status-")
        names = enumerate(self.job["names"])
        return ", ".join(name for rank, name in names if f"{self.folder}status-{rank}.json" not in there)

    def say(self, message: str, severity: str = "INFO") -> None:
        """A line of this script's own, in the log as well."""
        line = {"severity": severity, "message": "gputrain: " + message, "node": self.rank}
        self.write(json.dumps(line).encode() + b"\n")

    def write(self, line: bytes) -> None:
        """A line in the log, which is the truth, and on the serial port, where it can be seen at once."""
        with self.writing:
            try:
                taken = self.log.write(line) or 0
            except OSError:
                taken = 0
            self.offset += taken
            if taken < len(line):  # a full disk: the ranks go on, and the end says what is missing
                self.lost_lines += 1
            self.serial.show(line.rstrip(b"\n"), self.offset)

    def send_logs(self) -> None:
        """Put what the agent wrote, and each rank's own log, into the bucket."""
        ranks = os.path.join(self.home, "ranks")
        names = {self.log_path: f"node-{self.rank}.log"}
        if os.path.isdir(ranks):
            names.update((os.path.join(ranks, name), name) for name in os.listdir(ranks))
        for path, name in sorted(names.items()):
            try:
                with open(path, "rb") as file:
                    self.bucket.put(self.folder + name, file.read())
            except OSError as error:  # noqa: PERF203  # one that fails must not keep the others
                self.say(f"{name} could not be sent: {error}", "WARNING")

    def result(self) -> Any:
        """What the agent found out; None where it could not even start."""
        try:
            with open(os.path.join(self.home, "results", f"result-{self.rank}.json")) as file:
                return json.load(file)
        except (OSError, ValueError):
            return None


def now() -> str:
    """RFC 3339, to the millisecond: what came first is told from Google's own times."""
    passed_s = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(passed_s)) + f".{int(passed_s % 1 * 1000):03d}Z"
