"""How nodes begin a run: whichever of them are started again, in any order, all end in one run of all."""

import contextlib
import sys
import time

import pytest
from hypothesis import given, settings, strategies as st

from gputrain.runtime.options import Cluster, parse
from gputrain.runtime.peers import Folder, Peers
from tests.patience import PATIENCE_S

NODES = 3


class Job:
    """Nodes that meet in one folder, without ranks."""

    def __init__(self, path, count=NODES):
        self.path, self.count, self.boots = path, count, 0
        self.nodes = {}
        self.said = []

    def start(self, rank, count=None, timeout=PATIENCE_S):
        """Start a node, or start it again: the process before is gone without a word."""
        if rank in self.nodes:
            self.kill(rank)
        self.boots += 1
        count = count or self.count
        hello = {"boot": f"boot-{self.boots}", "num_nodes": count, "nproc": 1, "host": "h", "versions": {}}
        hello.update(addr="127.0.0.1", port=1)
        options = parse([f"--join-timeout={timeout}", "--", "t.py"], {"GPUTRAIN_RUN_DIR": str(self.path)})
        directory = Folder(str(self.path))
        directory.poll_s = 0.02
        node = Peers(directory, Cluster(count, rank), options, hello, lambda: None, self.say)
        node.boot = hello["boot"]
        self.nodes[rank] = node
        node.begin()
        return node

    def say(self, text, *_):
        self.said.append(text)

    def kill(self, rank):
        node = self.nodes.pop(rank)
        node._round = sys.exit  # its thread ends, whatever it was about to do
        node._news.set()
        node._thread.join()

    def runs(self):
        return {node.go["run"] if node.go else 0 for node in self.nodes.values()}

    def has_begun(self):
        """Whether all take part in one run that names all of them."""
        gos = [node.go for node in self.nodes.values()]
        boots = [self.nodes[rank].boot for rank in range(self.count)]
        return all(go and [node["boot"] for node in go["nodes"]] == boots for go in gos)

    def close(self):
        for rank in list(self.nodes):
            self.kill(rank)


@pytest.fixture
def job(tmp_path):
    with contextlib.closing(Job(tmp_path)) as job:
        yield job


def wait(is_true, within=PATIENCE_S):
    until = time.monotonic() + within
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.01)


ORDERS = st.lists(st.integers(0, NODES - 1), max_size=4)


@settings(max_examples=8)
@given(ORDERS, st.permutations(range(NODES)), st.booleans())
def test_whichever_nodes_are_started_again_all_end_in_one_run(tmp_path_factory, again, order, is_waited):
    """Vertex AI restarts one worker, or then all of them."""
    with contextlib.closing(Job(tmp_path_factory.mktemp("run"))) as job:
        for rank in order:
            job.start(rank)
        wait(job.has_begun)
        for rank in again:
            job.start(rank)
            if is_waited:
                wait(job.has_begun)
        for rank in order if len(again) > 1 else ():
            job.start(rank)
        wait(job.has_begun)
        assert job.runs() <= {1 + number for number in range(2 * NODES + len(again))}


def test_a_folder_of_an_earlier_job_is_no_hindrance(job):
    for rank in range(NODES):
        job.start(rank)
    wait(job.has_begun)
    before = dict(job.nodes)
    for node in before.values():
        node.end()
    wait(lambda: all(node.is_released for node in before.values()))
    job.start(0)
    time.sleep(0.2)
    assert job.nodes[0].go is None  # it waits for the others to come anew
    for rank in (1, 2):
        job.start(rank)
    wait(job.has_begun)


def test_who_comes_last_as_a_node_is_that_node(job):
    first = job.start(1)
    wait((job.path / "hello-1").exists)
    job.nodes.pop(1)
    job.start(1)
    wait(lambda: first.go is not None)
    assert first.go["end"]["cause"]["message"] == "another process joined as node 1"


def test_node_0_is_released_last(job):
    for rank in range(NODES):
        job.start(rank)
    wait(job.has_begun)
    job.nodes[0].end()
    job.nodes[1].end()
    wait(lambda: job.nodes[1].is_released)
    time.sleep(0.1)
    assert not job.nodes[0].is_released
    job.nodes[2].end()
    wait(lambda: job.nodes[0].is_released)


def test_a_directory_that_cannot_be_used_is_told_once(job, tmp_path):
    tmp_path.joinpath("hello-0").mkdir()  # no document can be put there
    node = job.start(0, timeout=0.5)
    wait(lambda: node.go is not None)
    assert node.go["end"]["cause"]["kind"] == "node_missing"
    assert len([text for text in job.said if "cannot be used" in text]) == 1
