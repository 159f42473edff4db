"""The order for a job on this machine, read in review as JSON."""

import json
from pathlib import Path

import pytest

from gputrain.backends.base import Bundle
from gputrain.backends.local import request as orders
from gputrain.entrypoint import contract
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec

GOLDEN = Path(__file__).parents[2] / "golden" / "local"
SPECS = {
    "cpu-ranks": (TrainingSpec(script="train.py", num_nodes=2, nproc_per_node=2, args=["--lr", "3e-4"],
     env={"A": "ü\n"}), {}),
    "gpus": (TrainingSpec(module="pkg.train", gpu="L4:2", num_nodes=2, checkpoint_dir="/data/ckpt",
     output_dir="/data/out", max_run_duration="90m", max_wait_duration="10m", max_restarts=3,
     labels={"team": "nlp"}), {"gpu": "L4", "gpu_count": 2, "nproc_per_node": 2}),
    "command": (TrainingSpec(command=["./run.sh", "a b"]), {}),
}  # fmt: skip
ARGV = {
    "cpu-ranks": ("train.py", "--lr", "3e-4"),
    "gpus": ("-m", "pkg.train"),
    "command": ("./run.sh", "a b"),
}


def rendered(name):
    spec, more = SPECS[name]
    fields = {
        "backend": "local",
        "gpu": None,
        "gpu_count": 0,
        "machine_type": "this-machine",
        "place": "/jobs",
        "provisioning_model": None,
        "num_nodes": spec.num_nodes,
        "nproc_per_node": spec.nproc_per_node or 1,
        "price": None,
        "max_run_duration": spec.max_run_duration,
    }
    bundle = Bundle(location="/code", argv=ARGV[name])
    uuids = [f"GPU-{number}" for number in range(4)]
    candidate = Candidate(**{**fields, **more})
    return orders.order(
        "bert-x1y2",
        "a1b2c3d4",
        spec,
        candidate,
        bundle,
        uuids=uuids,
        locks="/locks",
        folder="/jobs/bert-x1y2",
    )


@pytest.mark.parametrize("name", SPECS)
def test_an_order_is_what_was_read_in_review(name):
    assert rendered(name) == json.loads((GOLDEN / f"{name}.json").read_text())


def node(address="127.0.0.1", **env):
    return {"env": {contract.LOCAL_ADDR: address, **env}}


@pytest.mark.parametrize(
    ("names", "given", "interface"),
    [
        (["lo", "eth0"], "lo", "lo"),
        (["lo0", "en0"], "lo", "lo0"),
        (["en0"], "lo", "lo"),
        (["lo0", "en0"], "en0", "en0"),
        (["lo0", "en0"], None, None),
    ],
)
def test_gloo_gets_the_loopback_by_the_name_it_has_here(monkeypatch, names, given, interface):
    monkeypatch.setattr("socket.if_nameindex", lambda: list(enumerate(names, 1)))
    env = {} if given is None else {"GLOO_SOCKET_IFNAME": given}
    assert orders._placed(node(**env))["env"].get("GLOO_SOCKET_IFNAME") == interface


def test_a_node_whose_address_this_machine_lacks_gets_the_one_it_has():
    for address, placed in (("192.0.2.77", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")):
        assert orders._placed(node(address))["env"][contract.LOCAL_ADDR] == placed
