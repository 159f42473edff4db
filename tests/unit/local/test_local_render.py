"""The order for a job on this machine, read in review as JSON."""

import ipaddress
import json
from datetime import timedelta
from pathlib import Path

import pytest

from gputrain.backends.base import Bundle, Start
from gputrain.backends.local import render
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec

GOLDEN = Path(__file__).parents[2] / "golden" / "local"
SPECS = {
    "cpu-ranks": (
        TrainingSpec(
            script="train.py", num_nodes=2, nproc_per_node=2, args=["--lr", "3e-4"], env={"A": "ü\n"}
        ),
        {},
    ),
    "gpus": (
        TrainingSpec(
            module="pkg.train",
            gpu="L4:2",
            num_nodes=2,
            checkpoint_dir="ckpt",
            output_dir="/data/out",
            max_run_duration="90m",
            max_wait_duration="10m",
            max_restarts=3,
            labels={"team": "nlp"},
        ),
        {"gpu": "L4", "gpu_count": 2, "nproc_per_node": 2},
    ),
    "command": (TrainingSpec(command=["./run.sh", "a b"]), {}),
}
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
    start = Start(spec=spec, candidate=candidate, job_id="bert-x1y2", bundle=bundle)
    return render.order(start, uuids=uuids, locks="/locks")


@pytest.mark.parametrize("name", SPECS)
def test_an_order_is_what_was_read_in_review(name):
    assert rendered(name) == json.loads((GOLDEN / f"{name}.json").read_text())


def test_every_node_has_a_loopback_address_of_its_own():
    found = {render.address(f"job-{job}", node) for job in range(200) for node in range(16)}
    assert all(ipaddress.ip_address(one).is_loopback for one in found)
    assert len(found) > 0.99 * 200 * 16
    assert not any(one.startswith(("127.0.", "127.1.")) for one in found)


def test_a_setting_of_ours_wins_over_one_that_the_spec_smuggles_in():
    order = rendered("cpu-ranks")
    assert order["nodes"][1]["env"]["GPUTRAIN_NODE_RANK"] == "1"
    assert order["max_run_s"] == timedelta(days=1).total_seconds()


def test_gloo_keeps_to_the_loopback_unless_the_spec_says_otherwise():
    assert rendered("command")["nodes"][0]["env"]["GLOO_SOCKET_IFNAME"] == "lo"
