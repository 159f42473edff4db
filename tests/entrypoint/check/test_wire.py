"""One end of a connection between agents: whole messages, bounded, and an end that is seen."""

import json
import socket

import pytest

from gputrain.entrypoint import stacks, wire


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
    link = wire.Link(near)
    yield link, far
    link.close()
    far.close()


def received(link, until):
    """What arrives until the link has given `until` messages or has closed."""
    messages = []
    link.sock.settimeout(5)
    while len(messages) < until and not link.closed:
        messages += link.receive()
    return messages


def test_messages_arrive_whole_however_they_are_cut(pair):
    link, far = pair
    told = [{"type": "stop", "reason": "ä" * number, "node_rank": 0, "is_agreed": False}
            for number in (1, 500, 15_000)]  # fmt: skip
    data = b"".join(json.dumps(message).encode() + b"\n" for message in told)
    for start in range(0, len(data), 1500):
        far.sendall(data[start : start + 1500])
    assert received(link, 3) == told


@pytest.mark.parametrize(
    "garbage", [b"hello\n", b"[1]\n", b'{"kind": 1}\n', b"\xff\n", b'{"type": 1}\n', b"\n"]
)
def test_anything_else_closes_the_link(pair, garbage):
    link, far = pair
    far.sendall(garbage)
    assert received(link, 1) == []
    assert link.closed


def test_what_came_before_the_garbage_is_still_heard(pair):
    link, far = pair
    far.sendall(b'{"type": "challenge", "nonce": "x"}\ngarbage\n')
    assert received(link, 2) == [{"type": "challenge", "nonce": "x"}]
    assert link.closed


def test_a_line_that_never_ends_is_cut_off(pair):
    link, far = pair
    link.sock.settimeout(5)
    sent = 0
    while not link.closed:
        sent += far.send(b"x" * 65536)
        link.receive(limit=100_000)
    assert sent <= 10 * 65536


def test_a_peer_that_is_gone_is_seen_by_the_reader_and_not_by_the_writer(pair):
    link, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    far.close()
    for _ in range(3):
        link.send({"type": "start"})
    assert not link.closed
    assert received(link, 1) == []
    assert link.closed


def test_a_peer_that_does_not_read_does_not_block_the_agent(pair):
    link, far = pair
    for _ in range(100):
        link.send({"type": "over", "text": "x" * 100_000})
    assert link.outgoing
    far.settimeout(5)
    got = 0
    while link.outgoing:
        got += len(far.recv(1 << 20))
        link.flush()
    assert got > 0


def heard(pair, message):
    """What one end hears first of a message that the other sends."""
    link, far = pair
    sender = wire.Link(far)
    sender.send(message)
    messages = []
    while not messages and not link.closed:
        sender.flush()
        messages += link.receive()
    return messages


def test_where_192_ranks_stand_in_hundreds_of_groups_is_one_message(pair):
    text = "Thread 0x1 (most recent call first):\n" + '  File "/w/tränen.py", line 8 in ä\n' * 1000
    recorded = {str(group): {"begun": 7, "done": 6, "name": "nccl:all_reduce"} for group in range(300)}
    taken = [{"rank": rank, "local_rank": rank, "text": text, "recorded": recorded} for rank in range(192)]
    told = {"type": "standings", "ranks": [stacks.standing(one, len(taken)) for one in taken]}
    assert heard(pair, told) == [told]


def test_a_start_of_ten_thousand_nodes_is_one_message(pair):
    many = 10_000
    addrs = [f"fd00:1234:5678:9abc:def0::{number:x}" for number in range(many)]
    told = {"type": "start", "base_rank": 0, "world_size": many, "addrs": addrs, "ports": [29500] * many}
    assert heard(pair, told) == [told]
