"""However many strangers shout at an agent's port, the job ends as it would have, and no memory grows."""

import contextlib
import json
import random
import re
import socket
import time
from pathlib import Path

import pytest

from tests.entrypoint.nodes import Cluster
from tests.patience import PATIENCE_S

MOST_MIB = 32
SAID = (
    b'{"type": "hello", "job": "\\ud800"}\n', b'{"type": "hello", "node_rank": Infinity}\n',
    b'{"type": "ended", "local_rank": 0, "exit_code": 1, "age": 0, "cause": {}}\n', b'{"type": "stop"}\n',
    b'{"type": "over", "verdict": {"state": "failed", "exit_code": 1}}\n',
    b"GET / HTTP/1.1\r\nOrigin: https://evil.example\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"\x80\x04K\x01.\n", b"[" * 9000 + b"\n", b"9" * 6000 + b"\n", b"x" * 15_000,
    b"\n", b"{}\n", b"\xff\xfe\n", b"null\n",
)  # fmt: skip
"""What strangers say; an agent's own hello, with a proof that is none, is added to it."""
EACH = 16
"""Messages that come in one piece before anybody could have closed the connection."""

TRAIN = """
    import os, time
    while not os.path.exists("enough"):
        time.sleep(0.05)
    print("trained", os.environ["RANK"])
"""


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def hello(dice):
    whole = {
        "type": "hello",
        "job": "",
        "attempt": "0",
        "num_nodes": 2,
        "node_rank": 1,
        "nproc": 1,
        "host": "h",
    }
    whole.update(port=0, versions={}, nonce="mine", proof=dice.randbytes(32).hex())
    return json.dumps(whole).encode() + b"\n"


def flood(address, count, dice):
    """Say so many hostile things; some strangers read the answer, some hang on in silence, most are gone."""
    kept = []
    for number in range(0, count, EACH):
        with contextlib.suppress(OSError):  # refused or cut off: that is the most that it may cost
            sock = socket.create_connection(address, timeout=PATIENCE_S)
            sock.sendall(b"".join(dice.choice([*SAID, hello(dice)]) for _ in range(EACH)))
            if number % (8 * EACH) == 0:
                while sock.recv(65536):
                    pass
            kept.append(sock)
        while len(kept) > 100:
            kept.pop(0).close()
    for sock in kept:
        sock.close()


@pytest.mark.parametrize(
    "count", [10_000, pytest.param(600_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_a_job_under_a_flood_ends_as_it_would_have(cluster, count):
    script = cluster.script(TRAIN)
    host, _, port = cluster.coordinator.rpartition(":")
    first = cluster.start(script, rank=0, nodes=2, nproc=1)
    patience = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            break
        assert time.monotonic() < patience, first.out
        time.sleep(0.05)
    dice = random.Random(count)
    flood((host, int(port)), count // 2, dice)
    second = cluster.start(script, rank=1, nodes=2, nproc=1)
    flood((host, int(port)), count // 2, dice)
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{first.pid}/status").read_text())
    Path(cluster.folder / "enough").touch()
    assert (first.wait().code, second.wait().code) == (0, 0), first.out[-3000:]
    assert first.result["state"] == second.result["state"] == "done"
    assert first.said("trained 0")
    assert int(peak[1]) / 1024 <= MOST_MIB
    assert len(first.lines) < 100, "a flood is told in few words"
