"""Hosts with other networks than most: told or run, and never hung."""

import shutil
import subprocess
import sys

import pytest

from tests.entrypoint.nodes import ROOT

WORDS = [
    "unshare",
    "--net",
    "sh",
    "-c",
    'ip link set lo up && ip addr del 127.0.0.1/8 dev lo && exec "$@"',
    "-",
]


def has_networks_of_its_own():
    can = shutil.which("unshare") and shutil.which("ip")
    return bool(can) and subprocess.run([*WORDS, "true"], capture_output=True, check=False).returncode == 0


TWO_HOSTS = """
hostname of-no-address
ip link set lo up
unshare --net sleep 120 & far=$!
while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
ip link add near type veth peer name far netns $far
ip addr add $2 dev near nodad 2>/dev/null || ip addr add $2 dev near
ip link set near up
inside="nsenter -t $far --net"
$inside ip link set lo up
$inside ip addr add $3 dev far nodad 2>/dev/null || $inside ip addr add $3 dev far
$inside ip link set far up
agent="$1 -m gputrain.entrypoint --nproc-per-node=1 --num-nodes=2 --run-dir=$5.run --master-addr=$4"
$inside $agent --node-rank=1 -- $5 &
other=$!
$agent --node-rank=0 -- $5; code=$?
wait $other; echo "codes $code $?"
kill $far
"""
SUM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("sum", int(total))
"""


@pytest.mark.skipif("not has_networks_of_its_own()", reason="needs root and iproute2")
@pytest.mark.parametrize(
    ("near", "far", "first"),
    [("10.77.0.1/24", "10.77.0.2/24", "10.77.0.1"), ("fd77::1/64", "fd77::2/64", "fd77::1")],
)
def test_hosts_whose_names_mean_nothing_meet_where_their_agents_do(tmp_path, near, far, first):
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(SUM)
    words = ["unshare", "--net", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child"]
    words += ["bash", "-c", TWO_HOSTS, "-"]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    ran = subprocess.run(
        [*words, sys.executable, near, far, first, str(script)],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "codes 0 0" in ran.stdout, ran.stdout + ran.stderr
    assert ran.stdout.count("sum 2") == 2


def test_an_address_that_says_nothing_here_is_told_at_once(cluster):
    flags = ["--master-addr=no-such-host.invalid", "--master-port=29400", "--run-dir="]
    node = cluster.start(cluster.script("print(1)"), nodes=2, rank=1, nproc=1, flags=flags)
    assert node.wait().code == 64
    assert "means nothing here" in node.out
