"""Compute Engine's notices: a preemption or host maintenance announced to one node stops all nodes."""

import http.server
import threading
import time

import pytest

from tests.entrypoint.check.test_stops import SAVES, all_up


class Metadata(http.server.BaseHTTPRequestHandler):
    """Compute Engine's metadata server, as far as notices go: answers at once, or when a value changes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        key, _, query = self.path.removeprefix("/computeMetadata/v1/instance/").partition("?")
        etag = dict(part.split("=") for part in query.split("&")).get("last_etag")
        server = self.server
        server.asked.append((key, etag, self.headers.get("Metadata-Flavor")))
        with server.changed:
            server.changed.wait_for(lambda: etag != server.etag(key) or server.closing, timeout=30)
            body = server.values[key].encode()
        self.send_response(200)
        self.send_header("ETag", server.etag(key))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class MetadataServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Metadata)
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE"}
        self.changed = threading.Condition()
        self.asked = []
        self.closing = False

    def etag(self, key):
        return f"{hash(self.values[key]) & 0xFFFF:x}"

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()


@pytest.fixture
def metadata():
    server = MetadataServer()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.closing = True
    with server.changed:
        server.changed.notify_all()
    server.shutdown()
    server.server_close()


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
    host = f"127.0.0.1:{metadata.server_port}"
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
    node = cluster.start(script, nproc=1, env={"GCE_METADATA_HOST": f"127.0.0.1:{metadata.server_port}"})
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
