"""The other nodes of an attempt, as one of them sees them through the run directory: JSON documents in a
folder or a bucket. Both kinds have the same four calls, each of which raises OSError where it cannot be
reached, and ``poll_s``: how often to look for news.

Each node says `hello-N` with a random boot. Node 0 waits for all and writes `go`: the number of the run, and
the hello of each node. A node starts its ranks once `go` names its own boot. The rest lies below the run's
number: `status-N` every few seconds, `stop` by the first who was asked to stop, `result-N` with the ends of
ranks as they come, and `ended-N` as the last act. A node that is started again, as Vertex AI does by itself,
has another boot; then node 0 writes the next run, and all nodes start their ranks anew.
"""

from __future__ import annotations

import calendar
import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Dict

from . import contract, host
from .failures import job_result, node_cause
from .network import free_port, is_address, is_own, own_address
from .options import Cluster, Options

Document = Dict[str, Any]

FOLDER_POLL_S, BUCKET_POLL_S = 0.2, 3.0


def open_directory(place: str) -> Folder | BucketPrefix:
    """The one that `place` names: a folder, ``gs://BUCKET/PREFIX``, or ``http(s)://HOST/BUCKET/PREFIX`` where
    another endpoint stands in for Google's.
    """
    url = re.sub(r"^gs:/", "https://storage.googleapis.com", place)
    if not re.match(r"https?://", url):
        return Folder(place)
    from .cloud import Bucket  # http and ssl, which a folder needs not

    scheme, _, host, bucket, prefix = f"{url}/".split("/", 4)
    return BucketPrefix(Bucket(f"{scheme}//{host}", bucket), f"{prefix.strip('/')}/".lstrip("/"))


class Folder:
    """A run directory in a folder that all nodes see. A document appears whole or not at all."""

    poll_s = FOLDER_POLL_S

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)

    def put(self, name: str, document: Document) -> None:
        """Write a document whole, over one that is there."""
        os.makedirs(os.path.dirname(self._file(name)), mode=0o700, exist_ok=True)
        host.put(self._file(name), json.dumps(document))

    def create(self, name: str, document: Document) -> bool:
        """Write it unless there is one of that name; whether that was this call."""
        draft = os.path.join(os.path.dirname(name), f".{os.urandom(6).hex()}")
        self.put(draft, document)
        try:
            os.link(self._file(draft), self._file(name))
        except FileExistsError:
            return False
        finally:
            os.unlink(self._file(draft))
        return True

    def get(self, name: str) -> Document | None:
        """None where there is none, or anything but a JSON object."""
        try:
            with open(self._file(name), "rb") as file:
                return host.json_object(file.read())
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> dict[str, float]:
        """When each document below a prefix was written, by name, in seconds by the store's own clock."""
        folder, _, start = prefix.rpartition("/")
        found: Dict[str, float] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._file(folder)) as entries:
            for entry in entries:
                if entry.name.startswith(start) and entry.is_file():
                    found[f"{folder}/{entry.name}".lstrip("/")] = entry.stat().st_mtime
        return found

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)


class BucketPrefix:
    """A run directory in Cloud Storage, read and written as this machine's service account."""

    poll_s = BUCKET_POLL_S

    def __init__(self, bucket: Any, prefix: str) -> None:
        self._bucket, self._prefix = bucket, prefix

    def put(self, name: str, document: Document) -> None:
        self._bucket.put(self._prefix + name, json.dumps(document).encode())

    def create(self, name: str, document: Document) -> bool:
        body = json.dumps(document).encode()
        return self._bucket.put(self._prefix + name, body, if_generation="0") is not None

    def get(self, name: str) -> Document | None:
        data = self._bucket.get(self._prefix + name)
        return None if data is None else host.json_object(data)

    def list(self, prefix: str) -> Dict[str, float]:
        found = self._bucket.items(self._prefix + prefix, "name,updated")
        return {item["name"][len(self._prefix) :]: _seconds(item["updated"]) for item in found}


def _seconds(stamp: str) -> float:
    """Seconds since 1970 of an RFC 3339 stamp in UTC."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")


FIRST_LOOK_S = 0.05
"""How soon it is looked again at first; the pauses grow to those of the directory."""

SILENT_S, LEAST_SILENT_S = 120.0, 10.0
"""How long a node may write no status: within a shorter hang timeout, but no busy machine takes the least."""

STATUSES = 8
"""How many statuses a node writes within that time."""

LATER_S = 10.0
"""How much longer than node 0 another node waits to join: node 0's answer names who is missing."""

NOTE_FIRST_S, NOTE_EVERY_S = 5.0, 60.0
"""When node 0 says whom it waits for."""


def silence_limit_s(hang_timeout: float | None) -> float:
    """How long a node may be silent before it counts as lost.

    >>> silence_limit_s(None), silence_limit_s(30.0), silence_limit_s(1.0)
    (120.0, 30.0, 10.0)
    """
    return max(LEAST_SILENT_S, min(SILENT_S, hang_timeout or SILENT_S))


class Peers:
    """Reads and writes the run directory in a thread of its own, as a bucket may be slow or gone.

    Without a directory the node is alone: the only one, or one of several that each report their own ranks.
    """

    def __init__(
        self,
        directory: Folder | BucketPrefix | None,
        cluster: Cluster,
        options: Options,
        hello: Document,
        wake: Callable[[], None],
        say: Callable[..., None],
    ) -> None:
        self._cluster, self._options, self._hello = cluster, options, hello
        self._rank = cluster.node_rank
        self.expected = list(range(cluster.num_nodes)) if directory else [self._rank]
        self.poll_s = directory.poll_s if directory else 0.0
        """0: it is alone."""
        self.stop: Document | None = None
        self.results: dict[int, Document] = {}
        self.quiet: dict[int, bool] = {}
        self.silent: dict[int, float] = {}
        """Nodes that have written no status for too long, and for how long; 0: ended without a result."""
        self.go: Document | None = None
        """The run that this node takes part in; with `end`, the job's result, where it cannot start."""
        self._wake, self._say = wake, say
        self._hellos: dict[int, Document] = {}
        self._seen: dict[str, float] = {}
        self._due: dict[str, Document] = {}
        self._is_quiet = False
        self._limit_s = silence_limit_s(options.hang_timeout)
        self._status_at = 0.0
        self._first_status_at = 0.0
        self._began = time.monotonic()
        self._join_by = self._began + options.join_timeout + (LATER_S if self._rank else 0.0)
        self._note_at = self._began + NOTE_FIRST_S
        self._trouble = ""
        self._is_over = False
        self._has_left = self._others_gone = directory is None
        self._news = threading.Event()
        if directory:
            self._directory = directory
            self._thread = threading.Thread(target=self._run, name="gputrain-peers", daemon=True)

    def begin(self) -> None:
        """Meet the others, if there are any."""
        if self.poll_s:
            self._put(f"hello-{self._rank}", self._hello)
            self._thread.start()
            return
        cluster, hello = self._cluster, self._hello
        own = {**hello, "port": self._options.master_port or hello["port"]}
        nodes = [{**own, "addr": "", "port": 0} for _ in range(cluster.num_nodes)]
        nodes[cluster.node_rank] = own
        if cluster.num_nodes > 1:
            nodes[0] = {**nodes[0], "addr": hello["master_addr"], "port": cluster.port}
        self.go = {"run": 0, "nodes": nodes}

    def report(self, run: int, result: Document) -> None:
        """Report how ranks of this node have ended so far in a run."""
        self._put(f"{run}/result-{self._rank}", result)

    def report_silence(self, is_quiet: bool) -> None:
        """Report that this node's ranks have been silent for the hang timeout, or speak again."""
        self._is_quiet, self._status_at = is_quiet, 0.0
        self._news.set()

    def ask_to_stop(self, stop: Document) -> None:
        """Ask all nodes to stop; the first who asks is the one that is named."""
        if self.stop is None and self.go:
            self.stop = stop
            self._put(f"{self.go['run']}/stop", stop)

    def leave_before_the_start(self, result: Document) -> None:
        """End the job, as this node cannot take part in it."""
        self._hello = {**self._hello, "end": result}
        self._put(f"hello-{self._rank}", self._hello)

    def end(self) -> None:
        """Report that this node ends."""
        if self.go and "end" not in self.go:
            self._put(f"{self.go['run']}/ended-{self._rank}", {"at": time.time()})
        self._is_over = True
        self._news.set()

    @property
    def is_released(self) -> bool:
        """Whether this node may go: all is written, and of node 0 all others have gone."""
        return self._has_left and (self._rank > 0 or self._others_gone)

    def _put(self, name: str, document: Document) -> None:
        self._due[name] = document
        self._news.set()

    def _run(self) -> None:
        pause_s = FIRST_LOOK_S
        while not (self._is_over and self.is_released):
            self._news.clear()
            try:
                self._round()
                self._trouble = ""
            except Exception as error:  # noqa: BLE001  # a fault there must not end the ranks
                if self._trouble != repr(error):
                    self._say(f"the run directory cannot be used: {error!r}", "WARNING")
                self._trouble = repr(error)
            if self.go is None and time.monotonic() >= self._join_by:
                self._give_up()
            self._news.wait(pause_s)
            pause_s = min(self.poll_s, 1.5 * pause_s)

    def _round(self) -> None:
        """Write what is due, and look for news."""
        self._write_due()
        go = self._lead() if self._rank == 0 else self._directory.get("go")
        if go and self._names_us(go):
            if self.go is None or self.go["run"] != go["run"]:
                self._begin_run(go)
        elif self._rank and "end" not in (self.go or {}) and self._is_replaced():
            self._end_with(contract.REFUSED, self._rank, f"another process joined as node {self._rank}")
        if self.go and "end" not in self.go:
            self._look(f"{self.go['run']}/")
        elif self._is_over:
            self._has_left = self._others_gone = not self._due
        if self._has_left:
            self._wake()

    def _write_due(self) -> None:
        for name, document in list(self._due.items()):
            if name.endswith("/stop"):
                if not self._directory.create(name, document):
                    self.stop = self._directory.get(name)
            else:
                self._directory.put(name, document)
            if self._due.get(name) is document:
                del self._due[name]

    def _begin_run(self, go: Document) -> None:
        self.stop, self.results, self.quiet, self.silent = None, {}, {}, {}
        self._seen = {name: at for name, at in self._seen.items() if name.startswith("hello-")}
        self._status_at = self._first_status_at = 0.0
        self._is_quiet = False
        self.go = go
        self._wake()

    def _names_us(self, go: Document) -> bool:
        return _boots(go)[self._rank : self._rank + 1] == [self._hello["boot"]]

    def _is_replaced(self) -> bool:
        """Whether another process has said hello as this node since."""
        hello = self._directory.get(f"hello-{self._rank}")
        return hello is not None and hello["boot"] != self._hello["boot"]

    def _lead(self) -> Document | None:
        """Node 0: the run that counts; the next one where all have come, or one has come anew."""
        written = self._directory.list("hello-")
        for name in self._changed(written):
            self._hellos[int(name.rpartition("-")[2])] = self._directory.get(name) or {}
        self._hellos[0] = self._hello
        count = self._cluster.num_nodes
        for rank, hello in self._hellos.items() if self.go is None else ():
            if written[f"hello-{rank}"] < written["hello-0"]:
                continue  # it may be of an earlier run
            if "end" in hello:
                return self._write_go(hello["end"])
            if hello.get("num_nodes") != count:
                why = f"node {rank} counts {hello.get('num_nodes')} nodes, node 0 counts {count}"
                return self._write_go(_failed(contract.REFUSED, contract.BAD_ENVIRONMENT, rank, why))
        missing = [rank for rank in range(count) if "boot" not in self._hellos.get(rank, {})]
        if missing:
            self._note(missing)
            return self.go
        if self.go and _boots(self.go) == [self._hellos[rank]["boot"] for rank in range(count)]:
            return self.go
        return self.go if self._has_dead() else self._write_go()

    def _note(self, missing: list[int]) -> None:
        now = time.monotonic()
        if now >= self._note_at and self.go is None:
            self._note_at = now + NOTE_EVERY_S
            names = ", ".join(map(self._cluster.name_of, missing))
            self._say(f"waiting for {names}, {now - self._began:.0f} s so far")

    def _has_dead(self) -> bool:
        """Whether a hello is of a process that has ended: left by an earlier run."""
        before = self._directory.get("go")
        ended = self._directory.list(f"{before['run']}/ended-") if before else {}
        boots = _boots(before) if before else []
        return any(
            rank < len(boots) and boots[rank] == self._hellos[rank]["boot"]
            for rank in (int(name.rpartition("-")[2]) for name in ended)
            if rank in self._hellos
        )

    def _write_go(self, end: Document | None = None) -> Document:
        before = self.go or self._directory.get("go") or {}
        nodes = [self._hellos.get(rank) for rank in range(self._cluster.num_nodes)]
        go: Document = {"run": before.get("run", 0) + 1, "nodes": nodes}
        if end:
            go["end"] = end
        else:
            go["nodes"] = [self._endpoint(), *nodes[1:]]
        self._directory.put("go", go)
        return go

    def _endpoint(self) -> Document:
        """Node 0's hello, with the address and port that rank 0 is reached by."""
        host, options = self._cluster.host, self._options
        addr = options.local_addr or (host if is_address(host) and is_own(host) else "")
        addr = addr or own_address(self._hellos[1]["addr"] if 1 in self._hellos else "")
        return {**self._hello, "addr": addr, "port": self._cluster.port or free_port(addr)}

    def _changed(self, written: dict[str, float]) -> list[str]:
        changed = [name for name, at in written.items() if self._seen.get(name) != at]
        self._seen.update(written)
        return changed

    def _look(self, prefix: str) -> None:
        """What this run's documents say."""
        own_status = f"{prefix}status-{self._rank}"
        if time.monotonic() >= self._status_at:
            self._status_at = time.monotonic() + self._limit_s / STATUSES
            self._directory.put(own_status, {"at": time.time(), "is_quiet": self._is_quiet})
        written = self._directory.list(prefix)
        changed = self._changed(written)
        has_news = False
        if f"{prefix}stop" in written and self.stop is None:
            self.stop, has_news = self._directory.get(f"{prefix}stop"), True
        others = [rank for rank in self.expected if rank != self._rank]
        for rank in others:
            name = f"{prefix}result-{rank}"
            if name in written and not self.results.get(rank, {}).get("is_final"):
                result = self._directory.get(name)
                if result and result != self.results.get(rank):
                    self.results[rank], has_news = result, True
            if self._rank == 0 and f"{prefix}status-{rank}" in changed:
                status = self._directory.get(f"{prefix}status-{rank}") or {}
                self.quiet[rank], has_news = bool(status.get("is_quiet")), True
        ended = [rank for rank in others if f"{prefix}ended-{rank}" in written]
        self._first_status_at = self._first_status_at or written[own_status]
        self.silent = dict(self._silent(others, written, prefix))
        self.silent.update((rank, 0.0) for rank in ended if not self.results.get(rank, {}).get("is_final"))
        self._has_left = self._is_over and not self._due
        self._others_gone = len(ended) == len(others)
        if has_news or self.silent:
            self._wake()

    def _silent(self, others: list[int], written: dict[str, float], prefix: str) -> list[tuple[int, float]]:
        """Node 0 looks after all others, and they after node 0; by the clock of the store alone."""
        now = written[f"{prefix}status-{self._rank}"]
        ages = [
            (rank, now - written.get(f"{prefix}status-{rank}", self._first_status_at))
            for rank in others
            if self._rank == 0 or rank == 0
        ]
        return [(rank, age) for rank, age in ages if age > self._limit_s]

    def _give_up(self) -> None:
        """The time to join is over."""
        if self._rank:
            why = self._trouble or f"it wrote no `go` into {self._options.run_dir}"
            why = f"{self._cluster.name_of(0)} did not start the job in time: {why}"
            return self._end_with(contract.NODE_MISSING, 0, why)
        count = self._cluster.num_nodes
        missing = [rank for rank in range(count) if "boot" not in self._hellos.get(rank, {})] or [0]
        names = ", ".join(map(self._cluster.name_of, missing))
        why = f"only {count - len(missing)} of {count} nodes joined in time; missing: {names}"
        if self._trouble:
            why += f"; {self._trouble}"
        end = _failed(contract.NODE_MISSING, contract.NODE_LOST, missing[0], why)
        try:
            self._begin_run(self._write_go(end))
        except OSError:  # the others see that node 0 has not come
            self._begin_run({"run": 0, "nodes": [], "end": end})
        return None

    def _end_with(self, kind: str, rank: int, why: str) -> None:
        code = contract.BAD_ENVIRONMENT if kind == contract.REFUSED else contract.NODE_LOST
        self._begin_run({"run": 0, "nodes": [], "end": _failed(kind, code, rank, why)})


def _failed(kind: str, code: int, rank: int, why: str) -> Document:
    return job_result(contract.STATE_FAILED, code, node_cause(kind, rank, "", why), None)


def _boots(go: Document) -> list[Any]:
    return [(node or {}).get("boot") for node in go["nodes"]]
