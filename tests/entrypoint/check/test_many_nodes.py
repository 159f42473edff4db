"""Several nodes: joining, who is named when one is missing or lost, strangers at the port."""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from gputrain.entrypoint import wire
from tests.entrypoint.nodes import TOKEN

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


def test_nodes_may_start_in_any_order_and_wait_for_each_other(cluster, until):
    script = cluster.script(PLACE)
    second = cluster.start(script, rank=1, nodes=2)
    until(lambda: Path(f"/proc/{second.pid}/net/tcp").exists(), "the second node's start")
    first = cluster.start(script, rank=0, nodes=2)
    assert (first.wait().code, second.wait().code) == (0, 0), second.out


def test_a_node_that_never_came_is_named_by_all_others(cluster):
    script = cluster.script(PLACE)
    flags = ["--join-timeout=1", "--node-names=bert-0,bert-1,bert-2"]
    first, third = (cluster.start(script, rank=rank, nodes=3, flags=flags) for rank in (0, 2))
    for node in (first.wait(), third.wait()):
        assert node.code == 69
        assert (node.cause["kind"], node.cause["node_rank"]) == ("node_missing", 1)
        assert "only 2 of 3 nodes joined in time; missing: node 1 (bert-1)" in node.cause["message"]


def test_a_node_that_finds_no_node_0_says_where_it_looked(cluster):
    node = cluster.start(cluster.script(PLACE), rank=1, nodes=2, flags=["--join-timeout=0.5"]).wait()
    assert node.code == 69
    assert (node.cause["kind"], node.cause["node_rank"]) == ("node_missing", 0)
    assert cluster.coordinator in node.cause["message"]
    assert "refused" in node.cause["message"]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_node_that_is_lost_is_named_within_a_second(cluster, until, lost):
    nodes = cluster.start_all(cluster.script(SLEEP))
    until(lambda: all(is_up(node)() for node in nodes), "the ranks' start")
    nodes[lost].signal(signal.SIGKILL)
    killed_at = time.monotonic()
    left = nodes[1 - lost]
    until(lambda: left.said("was lost"), "the news", within=5)
    heard_after = time.monotonic() - killed_at
    assert left.wait().code == 69
    assert (left.cause["kind"], left.cause["node_rank"]) == ("node_lost", lost)
    assert heard_after < 1.0


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


def test_node_0_leaves_last(cluster, until):
    """On Vertex AI the end of the primary replica ends all others."""
    script = cluster.script("print('x' * 200_000)")
    first = cluster.start(script, rank=0, nodes=2, nproc=1)
    second = cluster.start(script, rank=1, nodes=2, nproc=1)
    first.wait()
    until(lambda: second.process.poll() is not None, "the other node's end", within=0.5)
    assert second.result["state"] == "done"


def test_every_node_writes_its_own_result(cluster):
    cluster.run(cluster.script(PLACE), nodes=2, flags=["--result-dir", cluster.folder / "r"])
    documents = [json.loads((cluster.folder / "r" / f"result-{rank}.json").read_text()) for rank in range(2)]
    assert [document["node_rank"] for document in documents] == [0, 1]
    assert [[rank["rank"] for rank in document["ranks"]] for document in documents] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(("name", "value"), [("GPUTRAIN_JOB_ID", "b"), ("GPUTRAIN_ATTEMPT", "2")])
def test_an_agent_of_another_job_is_turned_away(cluster, name, value):
    script = cluster.script(PLACE)
    first = cluster.start(script, rank=0, nodes=2, flags=["--join-timeout=8"], env={name: "a"})
    stranger = cluster.start(script, rank=1, nodes=2, flags=["--join-timeout=8"], env={name: value}).wait()
    assert stranger.code == 64
    assert "turned this node away" in stranger.cause["message"]
    assert "'a'" not in stranger.out
    second = cluster.start(script, rank=1, nodes=2, env={name: "a"})
    assert (first.wait().code, second.wait().code) == (0, 0)
    assert first.said("turned away an agent")


def test_an_agent_that_does_not_know_the_token_never_joins(cluster):
    script = cluster.script(PLACE)
    first = cluster.start(script, rank=0, nodes=2, flags=["--join-timeout=20"])
    stranger = cluster.start(script, rank=1, nodes=2, flags=["--join-timeout=1"], env={"GPUTRAIN_TOKEN": "b"})
    assert stranger.wait().code == 69
    assert "closed the connection" in stranger.cause["message"]
    second = cluster.start(script, rank=1, nodes=2)
    assert (first.wait().code, second.wait().code) == (0, 0)
    assert first.said("does not prove the job's token")


@pytest.mark.parametrize("accepts", [True, False])
def test_a_coordinator_that_says_nothing_is_waited_for_no_longer_than_the_time_to_join(cluster, accepts):
    host, port = cluster.coordinator.split(":")
    with socket.create_server((host, int(port))) as server:
        node = cluster.start(cluster.script(PLACE), rank=1, nodes=2, flags=["--join-timeout=1"])
        kept = [server.accept()[0]] if accepts else []
        assert node.wait(20).code == 69
        for one in kept:
            one.close()
    assert (node.cause["kind"], node.cause["node_rank"]) == ("node_missing", 0)
    assert "whoever answered there said nothing" in node.cause["message"]


@pytest.mark.parametrize("said", [b"x", b"\n", b'{"type": "challenge", "nonce": "n"}\n', b""])
def test_a_coordinator_that_keeps_saying_nothing_of_use_is_waited_for_no_longer(cluster, said):
    host, port = cluster.coordinator.split(":")
    is_over = threading.Event()

    def drip():
        """Say the same to whoever comes, a little at a time; or hang up on him at once."""
        while not is_over.is_set():
            with contextlib.suppress(OSError), server.accept()[0] as sock:
                while said and not is_over.wait(0.02):
                    sock.sendall(said)

    with socket.create_server((host, int(port))) as server:
        server.settimeout(0.2)
        thread = threading.Thread(target=drip)
        thread.start()
        node = cluster.start(cluster.script(PLACE), rank=1, nodes=2, flags=["--join-timeout=1"])
        began = time.monotonic()
        try:
            assert node.wait(20).code == 69
        finally:
            is_over.set()
            thread.join()
    assert time.monotonic() - began < 10
    assert (node.cause["kind"], node.cause["node_rank"]) == ("node_missing", 0)


LIES = {
    "a start": {"type": "start", "base_rank": 0, "world_size": 1, "addrs": ["127.0.0.1"], "ports": [1]},
    "a welcome": {"type": "welcome", "proof": "0" * 64, "join_s": 1e8},
    "a refusal": {"type": "refused", "proof": "0" * 64, "why": "because"},
    "an end": {"type": "over", "verdict": {"state": "done", "exit_code": 0}},
    "nonsense": {"type": "stop"},
}


@pytest.mark.parametrize("lie", LIES)
def test_one_who_cannot_prove_to_be_node_0_is_not_believed(cluster, lie):
    host, port = cluster.coordinator.split(":")
    with socket.create_server((host, int(port))) as server:
        node = cluster.start(cluster.script(PLACE), rank=1, nodes=2, flags=["--join-timeout=2"])
        with server.accept()[0] as sock:
            sock.sendall(json.dumps({"type": "challenge", "nonce": "n"}).encode() + b"\n")
            heard = sock.makefile().readline()
            sock.sendall(json.dumps(LIES[lie]).encode() + b"\n")
            assert TOKEN not in heard
            assert json.loads(heard)["type"] == "hello"
            assert sock.recv(4096) == b""
    assert node.wait(20).code == 69
    assert (node.cause["kind"], node.cause["node_rank"]) == ("node_missing", 0)


HOSTILE = {
    "nothing": b"",
    "a web browser": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes": bytes(range(256)) * 20,
    "a line without end": b"x" * 300_000,
    "deep json": b"[" * 100_000 + b"\n",
    "json of another kind": b'[1, 2]\n"x"\nnull\n',
    "a hello of the wrong types": b'{"type":"hello","job":[],"attempt":{},"token":null,"node_rank":"x"}\n',
    "a hello that makes no sense": b'{"type":"hello","attempt":"0","node_rank":1e99,"nproc":-5}\n',
    "half a character": b'{"type":"hello","job":"\\ud800"}\n',
    "no number": b'{"type":"hello","job":"","attempt":"0","node_rank":Infinity}\n',
    "an end of ranks": b'{"type":"ended","local_rank":0,"exit_code":1}\n',
    "an abort": b'{"type":"abort","cause":{}}\n',
}


def test_strangers_at_the_port_do_no_harm(cluster, until):
    script = cluster.script(PLACE)
    first = cluster.start(script, rank=0, nodes=2)
    host, port = cluster.coordinator.split(":")
    kept = []

    def answers():
        try:
            kept.append(socket.create_connection((host, int(port)), timeout=2))
        except ConnectionRefusedError:
            return False
        return True

    until(answers, "the port's opening")
    for garbage in HOSTILE.values():
        with socket.create_connection((host, int(port)), timeout=2) as stranger:
            try:
                stranger.sendall(garbage)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(4096):
                    pass
            except OSError:  # thrown out, at whichever of these words
                pass
    kept += [socket.create_connection((host, int(port)), timeout=2) for _ in range(20)]
    second = cluster.start(script, rank=1, nodes=2)
    assert (first.wait().code, second.wait().code) == (0, 0), first.out
    for stranger in kept:
        stranger.close()


def test_nonsense_from_a_node_that_has_joined_is_survived(cluster, until):
    first = cluster.start(cluster.script(SLEEP), rank=0, nodes=2, nproc=1)
    host, port = cluster.coordinator.split(":")
    until(lambda: _connects(host, int(port)), "the port's opening")
    with socket.create_connection((host, int(port))) as node:
        challenge = json.loads(node.makefile().readline())["nonce"]
        hello = {"type": "hello", "job": "", "attempt": "0", "num_nodes": 2, "node_rank": 1, "nproc": 1}
        hello.update(host="h", addr="127.0.0.1", port=1, versions={}, nonce="mine")
        hello["proof"] = wire.proof(TOKEN, wire.NODE, challenge, hello)
        node.sendall(json.dumps(hello).encode() + b"\n")
        until(is_up(first, 1), "the start")
        for nonsense in (
            '{"type":"ended"}',
            '{"type":"ended","local_rank":"x","exit_code":[]}',
            '{"type":"stop"}',
            '{"type":"over"}',
        ):
            node.sendall(nonsense.encode() + b"\n")
        until(lambda: first.said("makes no sense"), "the complaint")
        bad_cause = '{"type":"ended","local_rank":0,"exit_code":3,"cause":{"x":1}}'
        node.sendall(bad_cause.encode() + b"\n")
        news = [json.loads(line) for line in iter(node.makefile().readline, "") if _is_or_ends(line, node)]
    assert [each["type"] for each in news] == ["welcome", "start", "abort", "over"]
    assert first.wait().code == 3
    assert (first.cause["node_rank"], first.cause["kind"]) == (1, "exit")


def _is_or_ends(line, sock):
    if '"over"' in line:
        sock.shutdown(socket.SHUT_RDWR)
    return True


def _connects(host, port):
    try:
        socket.create_connection((host, port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_port_that_is_taken_is_named(cluster):
    host, port = cluster.coordinator.split(":")
    with socket.create_server((host, int(port))):
        node = cluster.start(cluster.script(PLACE), rank=0, nodes=2).wait()
    assert node.code == 64
    assert port in node.cause["message"]


def test_nodes_that_count_differently_are_told(cluster):
    script = cluster.script(PLACE)
    first = cluster.start(script, rank=0, nodes=2, flags=["--join-timeout=1"])
    second = cluster.start(script, rank=1, nodes=3).wait()
    assert second.code == 64
    assert "it counts 3 nodes, node 0 counts 2" in second.cause["message"]
    first.wait()


def test_two_agents_that_claim_to_be_the_same_node_are_told(cluster):
    script = cluster.script(SLEEP)
    flags = ["--join-timeout=3"]
    first = cluster.start(script, rank=0, nodes=3, flags=flags)
    cluster.start(script, rank=1, nodes=3, flags=flags)
    cluster.start(script, rank=1, nodes=3, flags=flags)
    first.wait()
    assert first.said("another agent already joined as node 1")


def test_names_reach_ranks_as_numbers(cluster):
    flags = [f"--coordinator=localhost:{wire.free_port('127.0.0.1')}", "--local-addr="]
    first, second = (cluster.start(cluster.script(PLACE), rank=rank, nodes=2, flags=flags) for rank in (0, 1))
    assert (first.wait().code, second.wait().code) == (0, 0), first.out
    assert all(
        line.split()[-1] in ("127.0.0.1", "::1") for line in first.said("place") + second.said("place")
    )


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="no IPv6 here")
def test_nodes_meet_over_ipv6(cluster):
    flags = [f"--coordinator=[::1]:{wire.free_port('::1')}", "--local-addr="]
    nodes = [cluster.start(PEERS, "none", "0", "3", rank=rank, nodes=2, flags=flags) for rank in (0, 1)]
    assert [node.wait().code for node in nodes] == [0, 0], nodes[0].out


def test_nodes_of_different_versions_are_warned_about(cluster):
    script = cluster.script(PLACE)
    (cluster.folder / "other" / "torch").mkdir(parents=True)
    (cluster.folder / "other" / "torch" / "version.py").write_text("__version__ = '1.2.3'\n")
    first = cluster.start(script, rank=0, nodes=2)
    path = f"{cluster.folder / 'other'}:{Path(__file__).parents[3]}"
    cluster.start(script, rank=1, nodes=2, env={"PYTHONPATH": path}).wait()
    assert first.wait().said("versions differ: node 1 has torch 1.2.3, but node 0 has"), first.out


@pytest.mark.parametrize(("ahead_s", "told"), [(7200, "7200 s ahead of"), (-36000, "36000 s behind")])
def test_a_node_whose_clock_is_hours_off_trains_and_is_named(cluster, ahead_s, told):
    (cluster.folder / "other").mkdir()
    (cluster.folder / "other" / "sitecustomize.py").write_text(
        f"import time\nright = time.time\ntime.time = lambda: right() + {ahead_s}\n"
    )
    path = f"{cluster.folder / 'other'}:{Path(__file__).parents[3]}"
    first = cluster.start(PEERS, "none", "0", "3", rank=0, nodes=2, flags=["--hang-timeout=60"])
    second = cluster.start(
        PEERS, "none", "0", "3", rank=1, nodes=2, flags=["--hang-timeout=60"], env={"PYTHONPATH": path}
    )
    assert [first.wait().code, second.wait().code] == [0, 0], first.out + second.out
    assert len(first.said("clocks differ: node 1 is ")) == 1
    said = first.said("clocks differ: node 1 is ")[0]
    assert abs(float(said.split("node 1 is ")[1].split()[0]) - abs(ahead_s)) <= 2
    assert told.split(" ", 1)[1] in said


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
        nodes.append(cluster.start(cluster.script(PLACE), env=env))
    said = [line.split("place ")[1] for node in nodes for line in sorted(node.wait().said("place"))]
    places = [" ".join(line.split()[:5]) for line in said]
    assert places == ["0 0 4 2 0", "1 1 4 2 0", "2 0 4 2 1", "3 1 4 2 1"]
    assert {line.split()[5] for line in said} == {f"{cluster.prefix}.2"}


def test_a_node_that_cannot_start_its_ranks_ends_all_nodes(cluster):
    script = cluster.script(SLEEP)
    first = cluster.start(script, rank=0, nodes=2)
    second = cluster.start(script, rank=1, nodes=2, env={"TMPDIR": str(cluster.folder / "nowhere")})
    for node in (first.wait(), second.wait()):
        assert node.code == 64
        assert (node.cause["node_rank"], node.cause["kind"]) == (1, "environment")
        assert "nowhere" in node.cause["message"]


def test_a_target_missing_on_one_node_ends_all_nodes(cluster):
    script = cluster.script(SLEEP)
    first = cluster.start(script, rank=0, nodes=2)
    second = cluster.start("not-here.py", rank=1, nodes=2)
    for node in (first.wait(), second.wait()):
        assert node.code == 64
        assert "not-here.py" in node.cause["message"]
        assert node.cause["node_rank"] == 1
