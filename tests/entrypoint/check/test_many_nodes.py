"""Several nodes: joining, who is named when one is missing or lost, starting again."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from gputrain.runtime import network

PEERS = Path(__file__).parents[1] / "peers.py"

SLEEP = """
    import os, time
    print("up", os.environ["RANK"], os.getpid(), flush=True)
    time.sleep(600)
"""

PLACE = """
    import os
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"]
    print("place", *[os.environ[name] for name in names])
"""


def is_up(node, ranks=2):
    return lambda: len(node.said("] up ")) == ranks


def test_ranks_count_through_nodes_of_different_sizes(cluster):
    first, second, third = cluster.run(cluster.script(PLACE), nodes=3, nproc=[2, 1, 3])
    said = sorted(line.split("place ")[1] for node in (first, second, third) for line in node.said("place"))
    addr = f"{cluster.prefix}.2"
    assert said == [
        f"0 0 6 2 0 {addr}", f"1 1 6 2 0 {addr}", f"2 0 6 1 1 {addr}",
        f"3 0 6 3 2 {addr}", f"4 1 6 3 2 {addr}", f"5 2 6 3 2 {addr}",
    ]  # fmt: skip
    assert {node.code for node in (first, second, third)} == {0}


def test_ranks_of_two_nodes_meet(cluster):
    for node in cluster.run(PEERS, "none", "0", "3", nodes=2):
        assert node.code == 0, node.out
        assert len(node.said("finished")) == 2


def test_nodes_without_a_run_directory_meet_at_an_address_and_report_their_own_ranks(cluster):
    flags = [f"--master-port={network.free_port('127.0.0.1')}", "--run-dir=", "--local-addr="]
    env = {"MASTER_ADDR": "localhost"}
    nodes = cluster.run(PEERS, "raise", "3", "2", nodes=2, flags=flags, env=env)
    assert [node.code for node in nodes] == [1, 1], nodes[0].out
    assert [node.result["num_nodes"] for node in nodes] == [2, 2]
    assert nodes[1].cause["message"] == "ValueError: bad batch on rank 3"
    assert nodes[0].cause["kind"] == "exception"


def test_a_node_that_finds_no_node_0_says_where_it_looked(cluster):
    node = cluster.start(cluster.script(PLACE), rank=1, nodes=2, flags=["--join-timeout=0.5"]).wait()
    assert node.code == 69
    assert (node.cause["kind"], node.cause["node_rank"]) == ("node_missing", 0)
    assert str(cluster.run_dir) in node.cause["message"]


def test_a_node_that_ended_without_a_result_is_named_at_once(cluster, until):
    """Whoever looks after it writes that it has ended."""
    nodes = cluster.start_all(cluster.script(SLEEP))
    until(lambda: all(is_up(node)() for node in nodes), "the ranks' start")
    nodes[1].signal(signal.SIGKILL)
    (cluster.run_dir / "1" / "ended-1").write_text("{}")
    left = nodes[0]
    until(lambda: left.said("was lost"), "the news", within=10)
    assert left.wait().code == 69
    assert (left.cause["kind"], left.cause["node_rank"]) == ("node_lost", 1)


def test_a_node_that_is_started_again_begins_the_job_anew_on_all(cluster, until):
    script = cluster.script("""
        import os, sys, time
        print("up", os.environ["RANK"], os.getpid(), flush=True)
        while not os.path.exists("go"):
            time.sleep(0.01)
        print("done", flush=True)
    """)
    nodes = cluster.start_all(script)
    until(lambda: all(is_up(node)() for node in nodes), "the ranks' start")
    nodes[1].signal(signal.SIGKILL)
    nodes[1] = cluster.start(script, rank=1, nodes=2)
    until(lambda: is_up(nodes[0], 4)() and is_up(nodes[1])(), "the next run's start")
    (cluster.folder / "go").touch()
    assert [node.wait().code for node in nodes] == [0, 0], nodes[0].out
    assert [len(node.said("] done")) for node in nodes] == [2, 2]
    assert nodes[0].said("started again")


def test_a_rank_that_fails_after_the_others_finished_fails_the_job_everywhere(cluster):
    script = cluster.script("""
        import os, time
        if os.environ["RANK"] == "3":
            time.sleep(0.5)
            raise ValueError("late")
    """)
    for node in cluster.run(script, nodes=2):
        assert node.code == 1, node.out
        assert (node.cause["rank"], node.cause["message"]) == (3, "ValueError: late")


def test_names_reach_ranks_as_numbers(cluster):
    flags = ["--master-addr=localhost", "--local-addr="]
    first, second = (cluster.start(cluster.script(PLACE), rank=rank, nodes=2, flags=flags) for rank in (0, 1))
    assert (first.wait().code, second.wait().code) == (0, 0), first.out
    assert all(
        line.split()[-1] in ("127.0.0.1", "::1") for line in first.said("place") + second.said("place")
    )


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="no IPv6 here")
def test_nodes_meet_over_ipv6(cluster):
    flags = ["--master-addr=::1", "--local-addr="]
    nodes = [cluster.start(PEERS, "none", "0", "3", rank=rank, nodes=2, flags=flags) for rank in (0, 1)]
    assert [node.wait().code for node in nodes] == [0, 0], nodes[0].out


def test_replicas_of_vertex_ai_become_nodes(cluster):
    """With what Vertex sets there: pools, a reduction server, and RANK and WORLD_SIZE that count machines."""
    pools = {
        "workerpool0": [f"{cluster.prefix}.2:2222"],
        "workerpool1": [f"{cluster.prefix}.3:2222"],
        "workerpool2": [f"{cluster.prefix}.{number}:2222" for number in (4, 5, 6)],
    }
    nodes = []
    for rank, pool in enumerate(["workerpool0", "workerpool1"]):
        spec = {"cluster": pools, "environment": "cloud", "task": {"type": pool, "index": 0, "trial": ""}}
        env = {"CLUSTER_SPEC": json.dumps({**spec, "job": "{}"}), "RANK": str(rank), "WORLD_SIZE": "5"}
        env.update(MASTER_ADDR="cmle-training-workerpool0-ab-0", MASTER_PORT="3333", TF_CONFIG="{}")
        flags = [f"--run-dir={cluster.run_dir}"]
        nodes.append(cluster.start(cluster.script(PLACE), env=env, flags=flags))
    said = [line.split("place ")[1] for node in nodes for line in sorted(node.wait().said("place"))]
    places = [" ".join(line.split()[:5]) for line in said]
    assert places == ["0 0 4 2 0", "1 1 4 2 0", "2 0 4 2 1", "3 1 4 2 1"]
    assert {line.split()[5] for line in said} == {f"{cluster.prefix}.2"}


def test_tensorflow_on_two_nodes_gets_one_cluster(cluster):
    show = "import os; print(os.environ['TF_CONFIG'])"
    nodes = cluster.run(sys.executable, "-c", show, nodes=2, flags=["--launcher=tensorflow"])
    first, second = (json.loads(next(line for line in node.lines if line[:1] == "{")) for node in nodes)
    assert first["cluster"] == second["cluster"]
    assert len(first["cluster"]["worker"]) == 2
    assert [one["task"]["index"] for one in (first, second)] == [0, 1]


def test_a_node_that_cannot_start_its_ranks_ends_all_nodes(cluster):
    script = cluster.script(SLEEP)
    first = cluster.start(script, rank=0, nodes=2)
    second = cluster.start(script, rank=1, nodes=2, env={"TMPDIR": str(cluster.folder / "nowhere")})
    for node in (first.wait(), second.wait()):
        assert node.code == 64
        assert (node.cause["node_rank"], node.cause["kind"]) == (1, "environment")
        assert "nowhere" in node.cause["message"]
