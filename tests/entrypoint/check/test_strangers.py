"""What strangers and liars may say to an agent's port, field by field and type by type; seeded."""

import json
import random
import selectors
import socket
import time

import pytest

from gputrain.entrypoint import contract, messages, wire
from gputrain.entrypoint.discovery import Cluster
from gputrain.entrypoint.hub import STRANGERS, Hub
from gputrain.entrypoint.options import parse
from gputrain.entrypoint.uplink import Uplink
from gputrain.entrypoint.wire import free_port
from tests.entrypoint.nodes import TOKEN

DEEP = "[" * 3000 + "]" * 3000
VALUES = [
    "null", "true", "false", "0", "1", "-1", "1.5", "-0.0", "1e99", "Infinity", "-Infinity", "NaN",
    "9" * 400, '""', '"a"', '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"' + "x" * 2000 + '"', '"😀"',
    "[]", "[[]]", "[null]", '["a"]', "{}", '{"a": 1}', '{"\\ud800": "\\ud800"}', DEEP,
    '"../../etc"', '"127.0.0.1"', "65536", "2147483648",
]  # fmt: skip
"""Each JSON type, at its edges."""

SHALLOW = [value for value in VALUES if value != DEEP]
"""What JSON's reader takes: anything else ends the connection."""


class World:
    """A hub on its own port, turned by hand, and what it said to the log."""

    def __init__(self, num_nodes=2):
        self.said = []
        self.selector = selectors.DefaultSelector()
        self.address = ("127.0.0.1", free_port("127.0.0.1"))
        environ = {contract.TOKEN: TOKEN, contract.JOB_ID: "j"}
        self.options = parse(["--join-timeout=600", "--", "true"], environ)
        self.cluster = Cluster(num_nodes, 0, "{}:{}".format(*self.address))
        self.hub = Hub(self.cluster, self.options, self.selector, self.say, time.monotonic())
        self.hub.send(hello(0), time.monotonic())

    def say(self, message, *_):
        message.encode()
        self.said.append(message)

    def turn(self, seconds=0.0):
        for key, _ in self.selector.select(seconds):
            key.data(time.monotonic())
        self.hub.tick(time.monotonic())

    def connect(self):
        sock = socket.create_connection(self.address)
        sock.settimeout(0.01)
        return sock, json.loads(self.read(sock))["nonce"]

    def read(self, sock, until=b"\n"):
        """What comes until a line is whole, or the connection has ended."""
        data, patience = b"", time.monotonic() + 20
        while until not in data:
            assert time.monotonic() < patience, data
            self.turn()
            try:
                more = sock.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                more = b""
            if not more:
                break
            data += more
        return data

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


@pytest.fixture
def world():
    made = World()
    yield made
    made.close()


def hello(rank, challenge="", **more):
    whole = {"type": "hello", "job": "j", "attempt": "0", "num_nodes": 2, "node_rank": rank, "nproc": 2}
    whole.update(host="h", addr="127.0.0.1", port=0, versions={"python": "3"}, nonce="mine", **more)
    return {**whole, "proof": wire.proof(TOKEN, wire.NODE, challenge, whole)}


def with_value(message, field, value):
    """The line of a message of which one field is any piece of JSON."""
    text = json.dumps({**message, field: "HERE"})
    return text.replace('"HERE"', value).encode("utf-8", "surrogatepass") + b"\n"


def joins(world):
    """Whether a node of the job can still join, and the job starts."""
    sock, challenge = world.connect()
    with sock:
        sock.sendall(json.dumps(hello(1, challenge)).encode() + b"\n")
        return b'"start"' in world.read(sock, until=b'"start"')


def test_no_value_of_any_field_of_a_strangers_hello_does_more_than_lose_him_his_connection(world):
    for field in [*messages.FORMS["hello"], "type"]:
        for value in VALUES:
            sock, _ = world.connect()
            with sock:
                sock.sendall(with_value(hello(1), field, value))
                assert world.read(sock) == b""
    assert joins(world)
    assert len(world.said) < 20


def test_no_value_of_any_field_of_an_agents_hello_ends_the_job():
    for field in [*messages.FORMS["hello"], "type"]:
        for value in VALUES:
            world = World()
            sock, challenge = world.connect()
            with sock:
                sock.sendall(with_value(hello(1, challenge), field, value))
                world.read(sock)
            for _ in range(3):
                world.turn()
            assert world.hub.gang.verdict is None
            world.close()


def test_no_value_of_any_field_of_a_joined_nodes_messages_is_the_hubs_fault(world):
    sock, challenge = world.connect()
    sock.sendall(json.dumps(hello(1, challenge)).encode() + b"\n")
    world.read(sock, until=b'"start"')
    ended = {"type": "ended", "local_rank": 0, "exit_code": 1, "age": 0.0, "cause": {}}
    cause = dict.fromkeys(contract.CAUSE_FIELDS)
    lines = [with_value(ended, field, value) for field in list(ended)[1:] for value in SHALLOW]
    lines += [with_value({"type": kind}, "x", value) for kind in messages.FORMS for value in SHALLOW]
    for field in cause:
        for value in SHALLOW:
            inner = json.dumps({**cause, field: "HERE"}).replace('"HERE"', value)
            lines.append(with_value(ended, "cause", inner))
    for line in lines:
        sock.sendall(line)
        world.turn(0.01)
    for later in (100, 1000):
        world.hub.tick(time.monotonic() + later)
    assert world.hub.inbox[-1]["type"] == "over"
    assert set(world.hub.inbox[-1]["verdict"]["cause"]) == set(contract.CAUSE_FIELDS)
    assert len(world.said) < 200
    sock.close()


@pytest.mark.parametrize("seed", range(4))
def test_garbage_of_any_kind_is_survived_and_the_log_stays_short(world, seed):
    dice = random.Random(seed)
    for _ in range(150):
        sock, challenge = world.connect()
        with sock:
            line = bytearray(json.dumps(hello(1, dice.choice(["", challenge]))).encode())
            for _ in range(dice.randrange(1, 8)):
                at = dice.randrange(len(line))
                line[at : at + dice.randrange(4)] = dice.randbytes(dice.randrange(4))
            sock.sendall(bytes(line) + b"\n" * dice.randrange(2))
            world.turn(0.01)
        if world.hub.gang.is_complete:  # the dice left an agent's hello whole
            return
    assert joins(world)
    assert len(world.said) < 20


def test_a_flood_of_wrong_tokens_writes_a_line_for_each_power_of_ten(world):
    for _ in range(120):
        sock, _ = world.connect()
        with sock:
            sock.sendall(json.dumps(hello(1, "another")).encode() + b"\n")
            assert world.read(sock) == b""
    assert len([line for line in world.said if "does not prove" in line]) == 3
    assert joins(world)


def test_a_hello_that_was_overheard_cannot_be_said_again(world):
    sock, challenge = world.connect()
    line = json.dumps(hello(1, challenge)).encode() + b"\n"
    sock.close()
    again, _ = world.connect()
    with again:
        again.sendall(line)
        assert world.read(again) == b""
    assert not world.hub.gang.is_complete


def test_a_stranger_who_made_room_for_another_is_not_heard_in_the_same_turn(world):
    early = [world.connect()[0] for _ in range(STRANGERS)]
    late = socket.create_connection(world.address)
    early[0].sendall(b"x\n")
    ready, patience = [], time.monotonic() + 20
    while len(ready) < 2:  # the agent was at something else, and hears both at once, him last
        assert time.monotonic() < patience
        ready = world.selector.select(0.1)
    for key, _ in sorted(ready, key=lambda one: one[0].fileobj is not world.hub._listener):
        key.data(time.monotonic())
    for sock in early[:1]:
        assert world.read(sock) == b""
    for sock in (*early, late):
        sock.close()
    assert joins(world)


class Liar:
    """A node's uplink, and one at node 0's address who knows the token and says anything."""

    def __init__(self):
        self.said = []
        self.selector = selectors.DefaultSelector()
        self.server = socket.create_server(("127.0.0.1", 0))
        cluster = Cluster(2, 1, "{}:{}".format(*self.server.getsockname()))
        options = parse(["--join-timeout=600", "--", "true"], {contract.TOKEN: TOKEN, contract.JOB_ID: "j"})
        self.uplink = Uplink(cluster, options, self.selector, self.say, time.monotonic())
        whole = hello(1)
        for name in ("nonce", "proof", "addr", "port"):
            del whole[name]
        self.uplink.send(whole, time.monotonic())
        self.uplink.tick(time.monotonic())
        self.sock = self.server.accept()[0]

    def say(self, message, *_):
        message.encode()
        self.said.append(message)

    def tell(self, line):
        self.sock.sendall(line)
        for key, _ in self.selector.select(5):
            key.data(time.monotonic())

    def welcome(self):
        self.tell(b'{"type": "challenge", "nonce": "n"}\n')
        heard = json.loads(self.sock.makefile().readline())
        proof = wire.proof(TOKEN, wire.HUB, "n" + heard["nonce"], heard)
        self.tell(json.dumps({"type": "welcome", "proof": proof, "join_s": 5.0}).encode() + b"\n")

    def close(self):
        self.sock.close()
        self.server.close()
        self.selector.close()


HUBS = {
    "start": {"base_rank": 2, "world_size": 4, "addrs": ["127.0.0.1", "127.0.0.2"], "ports": [1, 2]},
    "stop": {"reason": "r", "node_rank": 0, "is_agreed": False},
    "abort": {"cause": {"kind": "exit", "message": "m"}},
    "over": {"verdict": {"state": "done", "exit_code": 0, "cause": None, "stop": None}},
}


@pytest.mark.parametrize("kind", HUBS)
def test_no_value_of_any_field_of_a_hubs_message_is_the_nodes_fault(kind):
    for field in HUBS[kind]:
        for value in VALUES:
            liar = Liar()
            liar.welcome()
            liar.tell(with_value({"type": kind, **HUBS[kind]}, field, value))
            for message in liar.uplink.inbox:
                assert messages.read(message) == message
            liar.close()


def test_a_start_for_another_number_of_nodes_is_nonsense():
    liar = Liar()
    liar.welcome()
    liar.tell(json.dumps({"type": "start", **HUBS["start"], "ports": [1]}).encode() + b"\n")
    assert liar.uplink.inbox == []
    liar.tell(json.dumps({"type": "start", **HUBS["start"]}).encode() + b"\n")
    assert [message["type"] for message in liar.uplink.inbox] == ["start"]
    liar.close()
