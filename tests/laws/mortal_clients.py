"""Clients that can be killed: each is a fork of one process that has everything loaded, and a real process.

    python -m tests.laws.mortal_clients

Reads one client's order a line (JSON), writes its process id, and, once it has ended, how. Their waiting
moves the emulator's clock.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
import urllib.request
from pathlib import Path

DONE = 0
ROOT = Path(__file__).parents[2]


class Clients:
    """The forking process, seen from a test."""

    def __init__(self):
        words = [sys.executable, "-m", "tests.laws.mortal_clients"]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def start(self, **order):
        """Start a client; its process id."""
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self):
        """Wait for the end of the client; whether it was killed. One that failed by itself fails the test.

        Only now is it buried: until then its number is its own, and a kill cannot hit a stranger.
        """
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (DONE, -signal.SIGKILL), status
        return status != DONE

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class EmulatedTime:
    """The emulator's clock, from another process."""

    def __init__(self, url):
        self._url = url
        self._now = 0.0
        self.sleep(0.0)

    def sleep(self, seconds):
        body = json.dumps({"seconds": seconds}).encode()
        with urllib.request.urlopen(f"{self._url}/_emulator/advance", data=body, timeout=60) as reply:
            self._now = json.loads(reply.read())["now"]

    def now(self):
        return self._now


def run(order):
    """One client: submits, and watches as long as it is told to; dies before its n-th call."""
    from google.oauth2.credentials import Credentials

    from gputrain.backends.compute import ComputeEngine
    from gputrain.errors import CapacityError
    from gputrain.gcp import Endpoints
    from gputrain.gcp.credentials import LockedCredentials
    from gputrain.spec import TrainingSpec
    from tests.road import Road

    class Mortal(LockedCredentials):
        left = order["calls"]

        def before_request(self, request, method, url, headers):
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            super().before_request(request, method, url, headers)

    url, time = order["url"], EmulatedTime(order["url"])
    backend = ComputeEngine(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket",
        endpoints=Endpoints(compute=url, storage=url, secretmanager=url),
        credentials=Mortal(Credentials(token=order["token"])), sleep=time.sleep, now=time.now,
    )  # fmt: skip
    road = Road(backend)
    try:
        ref = road.submit(TrainingSpec(**order["spec"]), job_id=order["job_id"])
    except CapacityError:
        return
    while order["watches"]:
        seen = backend.observe(ref)
        if seen.state is not None and seen.state.is_terminal:
            return
        road.supervise(ref)
        time.sleep(60.0)


def main():
    import google.cloud.compute_v1  # noqa: F401  # loaded once for all clients

    import tests.road  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                run(json.loads(line))
                code = DONE
            except BaseException:  # noqa: BLE001  # whatever ends a client is shown
                traceback.print_exc()
            finally:
                os._exit(code)
        print(pid, flush=True)
        sys.stdin.readline()
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
