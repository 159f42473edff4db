"""Clients that are killed or interrupted at a random instant: real processes, forks of one that is loaded.

    python -m tests.laws.struck_clients

An instant is the n-th time that Python looks for signals in calls, in whichever thread: it falls between any
two steps of a submit, a wait or a cancel, and on a busy machine as often as on a quiet one. Or it is a moment
of the n-th request: before it is sent, before it is answered, or after that. Orders come a line each (JSON).
One with ``at_home`` is lived by the forking process itself, so that its later forks have submitted before.
"""

import contextlib
import http.client
import importlib
import json
import logging
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = [sys.executable, "-m", "tests.laws.struck_clients"]
CALL = "at a call"
UNSENT, SENT, ANSWERED = MOMENTS = ("before it is sent", "before it is answered", "after it is answered")

LOOKS = ("call", "c_return")
"""When Python looks for signals: as a function begins, and after one of C's. Source: its ceval.c, 3.11."""
LOADED = (
    "google.cloud.compute_v1", "google.cloud.aiplatform_v1.services.job_service", "gputrain.trainer",
    "gputrain.backends.local", "gputrain.backends.vertex", "gputrain.backends.compute",
)  # fmt: skip
"""Once for all clients: else most instants fall into an import."""


class Clients:
    """The forking process, seen from a test."""

    def __init__(self, **order):
        self._order = order
        self._nursery = subprocess.Popen(
            WORDS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def live(self, key, acts, strikes=(), **more):
        """One client's life: its ``status``, what it ``said`` last, and what it counted."""
        order = {**self._order, "key": key, "acts": acts, "strikes": strikes, **more}
        self._nursery.stdin.write(json.dumps(order) + "\n")
        self._nursery.stdin.flush()
        return json.loads(self._nursery.stdout.readline())

    def close(self):
        self._nursery.stdin.close()
        self._nursery.wait(timeout=30)
        self._nursery.stdout.close()


class Counts:
    """What a client has done so far, in memory that outlives it."""

    NAMES = ("calls", "begun", "sent", "struck", "waited_ms")

    def __init__(self):
        self._memory = mmap.mmap(-1, 8 * len(self.NAMES))

    def add(self, name, more=1):
        at = 8 * self.NAMES.index(name)
        value = struct.unpack_from("q", self._memory, at)[0] + more
        struct.pack_into("q", self._memory, at, value)
        return value

    def told(self):
        return dict(zip(self.NAMES, struct.unpack_from(f"{len(self.NAMES)}q", self._memory)))


class Watch:
    """Counts what this process does, and strikes it: ``[["SIGINT", "at a call", 120], ...]``."""

    _connection = http.client.HTTPConnection

    def __init__(self, counts, strikes, counts_calls=False):
        self._counts = counts
        self._counts_calls = counts_calls
        self._left = sorted(((at, name) for name, moment, at in strikes if moment == CALL), reverse=True)
        self._at_requests = {(at, moment): name for name, moment, at in strikes if moment != CALL}
        self._calls = 0
        self._next = self._left[-1][0] if self._left else float("inf")

    def begin(self):
        if self._left or self._counts_calls:
            threading.setprofile(self._called)
            sys.setprofile(self._called)
        self._whole = put, get = self._connection.putrequest, self._connection.getresponse

        def putrequest(*arguments, **named):
            self._meet(self._counts.add("begun"), UNSENT)
            self._go_on()
            return put(*arguments, **named)

        def getresponse(*arguments, **named):
            number = self._counts.add("sent")
            self._meet(number, SENT)
            self._go_on()
            answer = get(*arguments, **named)
            self._meet(number, ANSWERED)
            return answer

        self._connection.putrequest, self._connection.getresponse = putrequest, getresponse

    def end(self):
        self._left, self._next, self._at_requests = [], float("inf"), {}
        sys.setprofile(None)
        threading.setprofile(None)
        self._connection.putrequest, self._connection.getresponse = self._whole
        self._counts.add("calls", self._calls)

    def waiting(self, sleep):
        """That sleep, counted once this process was struck for the second time."""

        def slept(seconds):
            if self._counts.told()["struck"] > 1:
                self._counts.add("waited_ms", int(seconds * 1000))
            self._go_on()
            sleep(seconds)

        return slept

    def _called(self, _frame, event, _argument):
        if event not in LOOKS:
            return
        self._calls += 1
        if self._calls >= self._next:
            name = self._left.pop()[1]
            self._next = self._left[-1][0] if self._left else float("inf")
            self._strike(name)

    def _meet(self, number, moment):
        name = self._at_requests.pop((number, moment), None)
        if name is not None:
            self._strike(name)

    def _strike(self, name):
        self._counts.add("struck")
        os.kill(os.getpid(), signal.Signals[name])

    def _go_on(self):
        if self._left:  # an interrupt that is raised while calls are counted ends the counting
            sys.setprofile(self._called)


class EmulatedTime:
    """The emulator's clock, past the requests that are counted."""

    def __init__(self, url):
        self._address = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._now = 0.0
        self.sleep(0.0)

    def sleep(self, seconds):
        body = json.dumps({"seconds": seconds}).encode()
        lines = ("POST /_emulator/advance HTTP/1.1", "Host: 127.0.0.1", "Connection: close")
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}"])
        with socket.create_connection(self._address, timeout=60) as line:
            line.sendall(head.encode() + b"\r\n\r\n" + body)
            answer = line.makefile("rb").read()
        self._now = json.loads(answer.partition(b"\r\n\r\n")[2])["now"]

    def now(self):
        return self._now


def live(order, counts, write):
    """Do what was ordered; the last words are the job's address, or why there is none."""
    from gputrain.errors import JobTimeoutError
    from gputrain.trainer import Trainer

    watch, said = Watch(counts, order["strikes"], order.get("counts_calls", False)), "nothing"
    backend, sleep = _backend(order, watch)
    trainer = Trainer(backend, sleep=sleep)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who was started in the background ignores it
    watch.begin()
    try:
        job = trainer.submit(order["script"], **order["spec"], idempotency_key=order["key"])
        said = job.uri
        for act in order["acts"]:
            with contextlib.suppress(JobTimeoutError):
                job.wait(timeout=order["waits_s"], progress="none") if act == "wait" else job.cancel()
    except KeyboardInterrupt as stop:
        said = f"{said} KeyboardInterrupt {stop}"
    except Exception as error:  # noqa: BLE001  # the test tells what it may be
        said = f"{said} {type(error).__name__} {error}"
    watch.end()
    os.write(write, said.encode())


def _backend(order, watch):
    """The backend, and how it waits."""
    if order["kind"] == "local":
        from gputrain.backends.local import Local

        time.sleep = watch.waiting(time.sleep)
        return Local(gpus=0, root=order["root"]), time.sleep
    from google.oauth2.credentials import Credentials

    from gputrain.backends import registry
    from gputrain.gcp import Endpoints

    clock = EmulatedTime(order["url"])
    sleep = watch.waiting(clock.sleep)
    backend = registry.find(order["kind"])(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket", sleep=sleep, now=clock.now,
        endpoints=Endpoints(**order["endpoints"]), credentials=Credentials(token=order["token"]),
        **order.get("settings", {}),
    )  # fmt: skip
    return backend, sleep


def main():
    for name in LOADED:
        importlib.import_module(name)
    logging.getLogger("gputrain").setLevel(logging.CRITICAL)
    for line in sys.stdin:
        order, counts, (read, write) = json.loads(line), Counts(), os.pipe()
        status = 0
        if order.get("at_home"):
            live(order, counts, write)
        else:
            status = live_apart(order, counts, write)
        os.close(write)
        with os.fdopen(read) as last:
            said = last.read() if status == 0 else ""
        print(json.dumps({"status": status, "said": said, **counts.told()}), flush=True)


def live_apart(order, counts, write):
    """In a fork; what that ended with."""
    child = os.fork()
    if not child:
        try:
            live(order, counts, write)
        except BaseException:  # noqa: BLE001  # a Ctrl-C between two lines of this file
            traceback.print_exc()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
