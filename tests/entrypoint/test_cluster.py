"""Which node this is, on each platform, and in which order they are believed."""

import json

import pytest

from gputrain.runtime.options import EnvironmentRefused, find_cluster, parse
from tests.each import each


def found(environ, *flags):
    return find_cluster(parse([*flags, "--", "train.py"], environ), environ)


def vertex(kind, index, workers=2, extra=None, job="{}"):
    pools = {"workerpool0": ["cmle-training-workerpool0-ab-0:2222"]}
    if workers:
        pools["workerpool1"] = [f"cmle-training-workerpool1-ab-{number}:2222" for number in range(workers)]
    spec = {
        "cluster": {**pools, **(extra or {})},
        "environment": "cloud",
        "task": {"type": kind, "index": index, "trial": ""},
        "job": job,
        "open_ports": [3333],
    }
    return {"CLUSTER_SPEC": json.dumps(spec), "RANK": "9", "WORLD_SIZE": "17", "MASTER_ADDR": "wrong"}


REDUCTION = {"workerpool2": [f"cmle-training-workerpool2-ab-{number}:2222" for number in range(14)]}
EVALUATOR = {"workerpool3": ["cmle-training-workerpool3-ab-0:2222"]}


@each(
    ("environ", "num_nodes", "node_rank"),
    [
        (vertex("workerpool0", 0), 3, 0),
        (vertex("workerpool1", 0), 3, 1),
        (vertex("workerpool1", 1), 3, 2),
        (vertex("workerpool1", 1, extra=REDUCTION), 3, 2),
        (vertex("workerpool0", 0, workers=0), 1, 0),
        (vertex("workerpool0", 0, workers=0, extra=REDUCTION), 1, 0),
        (vertex("workerpool1", 0, extra={**REDUCTION, **EVALUATOR}), 3, 1),
        (vertex("workerpool0", 0, job='{"python_module":"","package_uris":[]}'), 3, 0),
        (vertex("workerpool0", 0, job={"workerPoolSpecs": []}), 3, 0),
    ],
)
def test_vertex_nodes_are_the_first_two_pools(environ, num_nodes, node_rank):
    cluster = found(environ)
    assert (cluster.num_nodes, cluster.node_rank) == (num_nodes, node_rank)
    assert (cluster.host, cluster.port) == ("cmle-training-workerpool0-ab-0", 2222)


def test_vertex_nodes_have_names_for_messages():
    assert found(vertex("workerpool0", 0)).name_of(2) == "node 2 (cmle-training-workerpool1-ab-1)"


@pytest.mark.parametrize("kind", ["workerpool2", "workerpool3", "chief"])
def test_a_replica_that_trains_nothing_is_refused(kind):
    with pytest.raises(EnvironmentRefused, match=f"{kind}, which trains nothing"):
        found(vertex(kind, 0, extra=REDUCTION))


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", '{"cluster": {}}', '{"cluster": {"workerpool0": 1}, "task": {}}']
)
def test_a_cluster_spec_of_another_kind_is_shown(text):
    with pytest.raises(EnvironmentRefused, match="CLUSTER_SPEC is not what Vertex AI documents"):
        found({"CLUSTER_SPEC": text})


def test_vertexs_rank_and_world_size_alone_are_not_believed():
    cluster = found({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "3333"})
    assert (cluster.num_nodes, cluster.node_rank) == (1, 0)


PET = {
    "PET_NNODES": "4",
    "PET_NODE_RANK": "3",
    "PET_NPROC_PER_NODE": "8",
    "PET_MASTER_ADDR": "a-master-0",
    "PET_MASTER_PORT": "23456",
}


def test_torchruns_own_variables_are_read():
    cluster = found(PET)
    assert (cluster.num_nodes, cluster.node_rank, cluster.nproc) == (4, 3, 8)
    assert (cluster.host, cluster.port) == ("a-master-0", 23456)


def test_ours_come_before_vertexs_and_those_before_torchruns():
    ours = {"GPUTRAIN_NUM_NODES": "2", "GPUTRAIN_NODE_RANK": "1", "GPUTRAIN_MASTER_ADDR": "10.0.0.2"}
    everything = {**PET, **vertex("workerpool0", 0), **ours, "GPUTRAIN_MASTER_PORT": "29400"}
    assert found(everything).host == "10.0.0.2"
    named = found({**PET, **vertex("workerpool0", 0)}).host
    assert named == found(vertex("workerpool0", 0)).host != ""
    assert found(PET).host == "a-master-0"
    assert found({}).host == ""
    assert found(everything, "--num-nodes=3").num_nodes == 3


def test_without_a_run_directory_node_0_is_where_torchruns_users_say():
    count, environ = ["--num-nodes=2", "--node-rank=1"], {"MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    for cluster in (
        found(environ, *count),
        found({}, *count, "--master-addr=a", "--master-port=29500"),
        found({**environ, "MASTER_PORT": "1"}, *count, "--master-port=29500"),
    ):
        assert (cluster.host, cluster.port) == ("a", 29500)
    cluster = found(environ, *count, "--run-dir=/shared/run")  # where node 0 chooses a port
    assert (cluster.host, cluster.port) == ("", 0)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--num-nodes=2"], "--node-rank is not given"),
        (["--num-nodes=2", "--node-rank=0"], "need --run-dir"),
        (["--num-nodes=2", "--node-rank=0", "--master-addr=a"], "need --run-dir"),
        (["--num-nodes=2", "--node-rank=2", "--run-dir=r"], "node rank 2 does not exist among 2 nodes"),
        (
            ["--num-nodes=2", "--node-rank=0", "--master-addr=a", "--master-port=1", "--launcher=tensorflow"],
            "TF_CONFIG of several nodes needs --run-dir",
        ),
    ],
)
def test_a_cluster_that_contradicts_itself_is_refused(flags, told):
    with pytest.raises(EnvironmentRefused, match=told):
        found({}, *flags)


@pytest.mark.parametrize("address", ["fd00::5", "::1"])
@pytest.mark.parametrize(("told", "port"), [({}, 29400), ({"PET_MASTER_PORT": "29500"}, 29500)])
def test_an_ipv6_address_of_a_platform_is_no_port(address, told, port):
    cluster = found({"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": address, **told})
    assert (cluster.host, cluster.port) == (address, port)


@each("port", ["²", "70000", "0", "-1", "9" * 5000, "٣"])
def test_what_is_no_port_is_refused_wherever_it_stands(port):
    with pytest.raises(EnvironmentRefused, match="must be host:port"):
        found({"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": port})
    with pytest.raises(EnvironmentRefused, match="GPUTRAIN_MASTER_PORT"):
        found({}, f"--master-port={port}")
