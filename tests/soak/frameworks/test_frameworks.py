"""Scripts of four frameworks that know nothing of gputrain run on one node and on two, unedited."""

import importlib.util
import re
from pathlib import Path

import pytest

from gputrain import Local, Trainer

pytest.importorskip("lightning")
HERE = Path(__file__).parent


def arguments(framework: str, num_nodes: int) -> list[str]:
    return ["--devices", "2", "--num-nodes", str(num_nodes)] if framework == "lightning" else []


@pytest.mark.parametrize("num_nodes", [1, 2])
@pytest.mark.timeout(600)
@pytest.mark.parametrize("framework", ["lightning", "accelerate", "transformers", "deepspeed"])
def test_a_framework_finds_its_ranks_and_they_train_one_model(framework: str, num_nodes: int) -> None:
    assert importlib.util.find_spec(framework), f"{framework} is not installed: use `make soak`"
    job = Trainer(Local(gpus=0)).submit(
        str(HERE / f"{framework}_script.py"),
        args=arguments(framework, num_nodes),
        num_nodes=num_nodes,
        nproc_per_node=2,
    )
    job.wait(timeout=500)  # DeepSpeed compiles for a minute and a half, once
    job.result()
    text = "\n".join(line.message for line in job.logs())
    told = re.findall(r"rank (\d+) of (\d+): loss ([\d.]+)", text)
    ranks = 2 * num_nodes
    assert sorted((int(rank), int(world)) for rank, world, _ in told) == [
        (rank, ranks) for rank in range(ranks)
    ]
    assert len({loss for _, _, loss in told}) == 1  # one model: the reduced loss is the same everywhere
    assert float(told[0][2]) < 4  # it started near 8
