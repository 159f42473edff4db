"""The law of the first cause: whoever dies, and however, every node names that rank and that cause."""

import random
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[1] / "peers.py"
TORCH_PEERS = Path(__file__).parents[1] / "torch_peers.py"

TOLD = {
    "raise": ("exception", 1),
    "segfault": ("signal", 139),
    "kill": ("signal", 137),
    "exit": ("exit", 7),
    "leave": ("left_early", 1),
}
"""How a rank ends -> the kind told, the job's exit code."""


def runs(count, more):
    """Any endings; ``more`` of them only where there is time."""
    chance = random.Random(1)
    for number in range(count + more):
        ending = list(TOLD)[number % len(TOLD)]
        place = ending, chance.randrange(4), chance.randrange(20)
        yield pytest.param(*place, id=f"{number}-{ending}", marks=[pytest.mark.soak] * (number >= count))


def check(nodes, ending, rank):
    kind, code = TOLD[ending]
    for node in nodes:
        assert node.code == code, node.out
        cause = node.cause
        assert (cause["kind"], cause["rank"]) == (kind, rank), node.out
        assert (cause["node_rank"], cause["local_rank"]) == divmod(rank, 2)
        if ending == "raise":
            assert cause["message"] == f"ValueError: bad batch on rank {rank}"
            assert "end(ending)" in cause["traceback"]


@pytest.mark.parametrize(("ending", "rank", "step"), [*runs(20, more=100)])
def test_every_node_names_the_rank_that_failed_first(cluster, ending, rank, step):
    check(cluster.run(PEERS, ending, rank, step, nodes=2), ending, rank)


@pytest.mark.parametrize(("ending", "rank", "step"), [*runs(2, more=60)])
def test_it_holds_with_torch_and_gloo(cluster, ending, rank, step):
    pytest.importorskip("torch")
    check(cluster.run(TORCH_PEERS, ending, rank, step, nodes=2), ending, rank)
