"""Hosts with other networks than most: told or run, and never hung."""

import shutil
import socket
import subprocess
import sys

import pytest

from .nodes import ROOT

WORDS = [
    "unshare",
    "--net",
    "sh",
    "-c",
    'ip link set lo up && ip addr del 127.0.0.1/8 dev lo && exec "$@"',
    "-",
]
ADDRESS = """
import os
print("at", os.environ["MASTER_ADDR"], os.environ["WORLD_SIZE"])
"""


def has_networks_of_its_own():
    can = shutil.which("unshare") and shutil.which("ip")
    return bool(can) and subprocess.run([*WORDS, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif("not has_networks_of_its_own()", reason="needs root and iproute2")
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_host_without_ipv4_runs_its_ranks_at_its_ipv6_address(tmp_path, nodes):
    script = tmp_path / "train.py"
    script.write_text(ADDRESS)
    agent = f"{sys.executable} -m gputrain.entrypoint --nproc-per-node=2"
    others = ""
    if nodes == 2:
        agent += " --num-nodes=2 --coordinator=[::1]:29400"
        others = f"{agent} --node-rank=1 -- {script} & "
        agent += " --node-rank=0"
    line = f"{others}{agent} -- {script}; code=$?; wait; exit $code"
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "GPUTRAIN_TOKEN": "t"}
    ran = subprocess.run(
        [*WORDS, "sh", "-c", line], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(f"at ::1 {2 * nodes}") == 2 * nodes


def test_a_port_that_is_taken_is_told_at_once(cluster):
    with socket.socket() as other:
        other.bind((f"{cluster.prefix}.2", 0))
        other.listen()
        cluster.coordinator = f"{cluster.prefix}.2:{other.getsockname()[1]}"
        node = cluster.start(cluster.script("print(1)"), nodes=2, rank=0, nproc=1)
        assert node.wait().code == 64
    assert "is another job here? choose another --coordinator port" in node.out


def test_a_name_that_means_nothing_is_told_when_the_time_to_join_is_over(cluster):
    cluster.coordinator = "no-such-host.invalid:29400"
    flags = ["--join-timeout=2"]
    node = cluster.start(cluster.script("print(1)"), nodes=2, rank=1, nproc=1, flags=flags)
    assert node.wait().code == 69
    assert node.cause["kind"] == "node_missing"
    assert "no-such-host.invalid:29400 could not be joined in time" in node.cause["message"]


def test_a_store_whose_port_is_taken_is_told_with_its_port(cluster):
    pytest.importorskip("torch")
    script = cluster.script("""
        import torch.distributed as dist
        dist.init_process_group("gloo")
    """)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        node = cluster.run(script, nproc=1, flags=[f"--master-port={port}"])
    assert node.code == 1
    assert node.cause["kind"] == "exception"
    assert str(port) in node.cause["message"]
    assert "in use" in node.cause["message"]
