"""Compute Engine's notices: a preemption or host maintenance announced to one node stops all nodes."""

import contextlib
import threading
import time

import pytest

from tests.entrypoint.check.test_stops import SAVES, all_up
from tests.unit.google.answering import Server


class Metadata(Server):
    """Compute Engine's metadata server, as far as notices go: answers at once, or when a value changes."""

    def __init__(self):
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE"}
        self.changed, self.closing, self.asked = threading.Condition(), False, []
        super().__init__(self.reply)

    def reply(self, request):
        key, _, query = request.path.removeprefix("/computeMetadata/v1/instance/").partition("?")
        etag = dict(part.split("=") for part in query.split("&")).get("last_etag")
        self.asked.append((key, etag, request.headers.get("Metadata-Flavor")))
        with self.changed:
            self.changed.wait_for(lambda: etag != self.etag(key) or self.closing, timeout=30)
            return 200, self.values[key].encode(), {"ETag": self.etag(key)}

    def etag(self, key):
        return f"{hash(self.values[key]) & 0xFFFF:x}"

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def close(self):
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        super().close()


@pytest.fixture
def metadata():
    with contextlib.closing(Metadata()) as server:
        yield server


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("preempted", "TRUE", "preempted"),
        ("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", "maintenance"),
    ],
)
def test_a_notice_to_one_node_stops_all_nodes(cluster, until, metadata, key, value, reason):
    script = cluster.script(SAVES)
    proxies = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    host = metadata.url.partition("//")[2]
    first = cluster.start(script, rank=0, nodes=2)
    second = cluster.start(script, rank=1, nodes=2, env={"GCE_METADATA_HOST": host, **proxies})
    until(all_up([first, second]), "the ranks' start")
    until(lambda: {asked[0] for asked in metadata.asked if asked[1] != "0"} >= {key}, "the long poll")
    metadata.set(key, value)
    for node in (first.wait(), second.wait()):
        assert node.code == 75, node.out
        assert node.result["stop"] == {"reason": reason, "node_rank": 1}
    assert {flavor for _, _, flavor in metadata.asked} == {"Google"}


def test_a_migration_of_the_machine_is_not_its_end(cluster, until, metadata):
    script = cluster.script(
        "print('up', flush=True)\nimport os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.02)"
    )
    node = cluster.start(script, nproc=1, env={"GCE_METADATA_HOST": metadata.url.partition("//")[2]})
    until(all_up([node], 1), "the rank's start")
    until(lambda: len(metadata.asked) >= 4, "the long polls")
    metadata.set("maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")
    until(lambda: len(metadata.asked) >= 5, "the next question")
    (cluster.folder / "go").touch()
    assert node.wait().code == 0


def test_a_metadata_server_that_is_not_there_costs_nothing(cluster):
    began = time.monotonic()
    node = cluster.run(cluster.script("print(1)"), env={"GCE_METADATA_HOST": "127.0.0.1:9"})
    assert node.code == 0
    assert time.monotonic() - began < 10
