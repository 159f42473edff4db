"""Node 0 waits at its end for peers to go first: at rest, and not past a Ctrl-C."""

import os
import signal
import time

import pytest

from gputrain.entrypoint import contract, wire
from tests.entrypoint.nodes import TOKEN


@pytest.fixture
def lingering(cluster, until):
    """The agent of node 0 and the link of a node 1 that has ended, has heard the verdict, and does not go."""
    node = cluster.start(cluster.script("print('done')"), nodes=2, nproc=1, env={"GPUTRAIN_JOB_ID": "j"})
    host, _, port = cluster.coordinator.rpartition(":")
    links = []

    def answers():
        try:
            links.append(wire.dial(host, int(port), "", 1.0))
        except OSError:
            return False
        return True

    until(answers, "node 0's port")
    (link,) = links
    heard = {}

    def hears(kind):
        heard.update((message["type"], message) for message in link.receive())
        link.flush()
        return kind in heard

    until(lambda: hears("challenge"), "its challenge")
    nonce = heard["challenge"]["nonce"]
    hello = {"type": "hello", "job": "j", "attempt": "0", "num_nodes": 2, "node_rank": 1, "nproc": 1,
             "host": "h", "addr": "127.0.0.1", "port": 0, "versions": {}, "nonce": "mine"}  # fmt: skip
    link.send({**hello, "proof": wire.proof(TOKEN, wire.NODE, nonce, hello)})
    until(lambda: hears("start"), "the start")
    link.send({"type": "ended", "local_rank": 0, "exit_code": 0, "age": 0.0, "cause": None})
    until(lambda: hears("over"), "the verdict")
    until(lambda: node.said(contract.RESULT_MARKER), "node 0's own end")
    yield node
    link.close()


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_node_0_waits_for_its_peers_at_rest(lingering):
    before = cpu_s(lingering.pid)
    time.sleep(0.6)  # as long as it takes to tell a turn from a hundred thousand
    assert lingering.process.poll() is None
    assert cpu_s(lingering.pid) - before < 0.1


def test_a_ctrl_c_ends_the_waiting_for_peers_and_not_the_verdict(lingering):
    began = time.monotonic()
    lingering.signal(signal.SIGINT)
    assert lingering.wait().code == 0
    assert time.monotonic() - began < 50  # a peer is given 60 s
