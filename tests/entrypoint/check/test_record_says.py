"""An agent whose job's record says that it is to leave, by a file in its result folder."""

import functools

import pytest

from gputrain.entrypoint import contract
from gputrain.entrypoint.host import put
from tests.entrypoint.nodes import alive

SAVES = """
import os, pathlib, signal, sys, time
folder = pathlib.Path({folder!r})
rank = os.environ["RANK"]
def save(*_):
    (folder / f"saved-{{rank}}").write_text("whole")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
(folder / f"pid-{{rank}}").write_text(str(os.getpid()))
time.sleep(600)
"""


class Training:
    """Nodes of one rank each; the ranks save when they are asked to stop."""

    def __init__(self, cluster, until, folder, nodes, text=SAVES):
        self.folder = folder
        script = cluster.script(text.format(folder=str(folder)))
        self.nodes = [
            cluster.start(
                script, rank=rank, nodes=nodes, nproc=1, env={contract.RESULT_DIR: str(self.results(rank))}
            )
            for rank in range(nodes)
        ]
        until(lambda: len(self.made("pid-")) == nodes)
        self.pids = [int((folder / name).read_text()) for name in self.made("pid-")]

    def results(self, rank):
        return self.folder / f"results-{rank}"

    def made(self, start):
        found = [one for one in self.folder.iterdir() if one.name.startswith(start) and one.stat().st_size]
        return sorted(one.name for one in found)

    def say(self, says, rank):
        put(str(self.results(rank) / contract.RECORD_SAYS), says)

    def codes(self):
        return [node.wait().code for node in self.nodes]


@pytest.fixture
def train(cluster, until, tmp_path):
    return functools.partial(Training, cluster, until, tmp_path)


def test_ranks_of_a_superseded_attempt_are_killed_and_nothing_is_written(train):
    training = train(1)
    training.say(contract.SUPERSEDED, 0)
    assert training.codes() == [0]
    assert not any(map(alive, training.pids))
    assert not training.made("saved-")
    assert not (training.results(0) / "result-0.json").exists()
    assert not training.nodes[0].said(contract.RESULT_MARKER)
    assert training.nodes[0].said("superseded")


def test_ranks_of_a_cancelled_job_save_and_all_nodes_leave_with_0(train):
    training = train(2)
    training.say(contract.CANCELLED, 1)
    assert training.codes() == [0, 0]
    assert training.made("saved-") == ["saved-0", "saved-1"]
    for node in training.nodes:
        assert (node.result["state"], node.result["exit_code"]) == ("stopped", contract.STOPPED)
        assert node.result["stop"] == {"reason": "cancelled", "node_rank": 1}


def test_ranks_that_save_are_killed_once_another_attempt_trains(train, until):
    lingers = SAVES.replace("def save(*_):", "def save(*_):\n    time.sleep(600)")
    training = train(1, lingers)
    training.say(contract.CANCELLED, 0)
    until(lambda: training.nodes[0].said("stopping: cancelled"))
    training.say(contract.SUPERSEDED, 0)
    assert training.codes() == [0]
    assert not any(map(alive, training.pids))
