"""A process that has everything loaded and forks clients, each of them killed at a moment of its submit.

Run as a program it reads one order a line and answers each with how its client ended.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from gputrain.gcp import Api

MOMENTS = ("before it is sent", "before it is answered", "after it is answered")


class Clients:
    """Forks clients of one emulated cloud."""

    def __init__(self, cloud, script):
        self._order = {
            "endpoints": {api.value: getattr(cloud.endpoints, api.value, "") for api in Api},
            "url": cloud.endpoints.url,
            "token": cloud.world.callers.issue(cloud.owner),
            "script": str(script),
        }
        self._nursery = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def submit(self, key, *, step=0, moment=""):
        """One client, killed at a moment of its step-th request; how it ended, and what it said last."""
        order = {**self._order, "key": key, "step": step, "moment": moment}
        self._nursery.stdin.write(json.dumps(order) + "\n")
        self._nursery.stdin.flush()
        return json.loads(self._nursery.stdout.readline())

    def close(self):
        self._nursery.stdin.close()
        self._nursery.wait(timeout=30)
        self._nursery.stdout.close()


def main():
    from google.cloud.aiplatform_v1.services import job_service  # noqa: F401 - so that no client has to load it

    from gputrain.backends.vertex import VertexAI  # noqa: F401 - as above
    from gputrain.trainer import Trainer  # noqa: F401 - as above

    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            live(json.loads(line), write)
        os.close(write)
        with os.fdopen(read) as said:
            last = said.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status), "said": last}), flush=True)


def live(order, write):
    """The life of one client: a submit, and its last words."""
    from google.oauth2.credentials import Credentials

    from gputrain import Trainer, VertexAI
    from gputrain.gcp import Endpoints

    time = EmulatedTime(order["url"])
    die_at(order["step"], order["moment"])
    backend = VertexAI(
        "my-project", "us-central1", bucket="gs://my-bucket", credentials=Credentials(token=order["token"]),
        endpoints=Endpoints(**order["endpoints"]), sleep=time.sleep, now=time.now,
    )  # fmt: skip
    with contextlib.suppress(BrokenPipeError):
        job = Trainer(backend, sleep=time.sleep).submit(
            order["script"], gpu="L4:1", idempotency_key=order["key"]
        )
        os.write(write, f"{job.uri} {requests}".encode())
    os._exit(0)


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


requests = 0


def die_at(step, moment):
    """Have this process killed at a moment of its step-th request; never where there is no such request."""
    connection = http.client.HTTPConnection
    put, get = connection.putrequest, connection.getresponse

    def at(now):
        if (requests, moment) == (step, now):
            os.kill(os.getpid(), signal.SIGKILL)

    def putrequest(self, *arguments, **named):
        global requests
        requests += 1
        at("before it is sent")
        return put(self, *arguments, **named)

    def getresponse(self, *arguments, **named):
        at("before it is answered")
        answer = get(self, *arguments, **named)
        at("after it is answered")
        return answer

    connection.putrequest, connection.getresponse = putrequest, getresponse


if __name__ == "__main__":
    main()
