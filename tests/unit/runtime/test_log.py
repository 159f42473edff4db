"""The parts of a node's log in the bucket."""

import pytest

from gputrain.runtime import contract
from gputrain.runtime.cloud import Bucket
from gputrain.runtime.reports import NodeLog
from gputrain_emulator import faults


@pytest.fixture
def bucket(cloud, monkeypatch):
    monkeypatch.setattr(contract, "LOG_PART_BYTES", 100)
    return Bucket(cloud.endpoints.storage, "my-bucket")


def parts(bucket):
    return {name.rpartition("/")[2]: bucket.get(name) for name in sorted(bucket.list("a/logs/"))}


def test_a_part_grows_until_it_is_long_enough_and_the_next_begins_at_its_end(bucket, tmp_path):
    node, said = NodeLog(str(tmp_path), 3), b""
    for number in range(40):
        line = b"line %d\n" % number
        node.hear(line)
        said += line
        if number % 3 == 0:
            node.send(bucket, "a/")
            assert b"".join(parts(bucket).values()) == said
    found = parts(bucket)
    sizes = [len(one) for one in found.values()]
    assert all(100 <= size < 130 for size in sizes[:-1])
    assert [int(name.partition("-")[2]) for name in found] == [sum(sizes[:n]) for n in range(len(sizes))]


@pytest.mark.parametrize("size", [10, 200])
def test_a_container_that_is_started_again_goes_on_after_what_was_sent(bucket, tmp_path, size):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        node = NodeLog(str(tmp_path / name), 0)
        node.hear(name.encode() * size + b"\n")
        node.send(bucket, "a/")
    assert b"".join(parts(bucket).values()) == b"first" * size + b"\n" + b"second" * size + b"\n"


def test_what_could_not_be_sent_is_sent_later_and_once(bucket, cloud, tmp_path, at_once):
    node = NodeLog(str(tmp_path), 0)
    node.hear(b"one\n")
    cloud.fail("storage.objects.insert", faults.server_error(503), times=1)
    with pytest.raises(OSError, match="503"):
        node.send(bucket, "a/")
    node.hear(b"two\n")
    node.send(bucket, "a/")
    assert parts(bucket) == {"0-000000000000000": b"one\ntwo\n"}
