"""A stop on any node: all ranks of all nodes hear of it, save, and the job exits 75, never 0."""

import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from .nodes import alive

SAVES = """
    import os, signal, sys, time
    def stop(number, frame):
        print("saved", os.environ["RANK"], flush=True)
        sys.exit(75)
    signal.signal(signal.SIGTERM, stop)
    print("up", flush=True)
    time.sleep(600)
"""

IGNORES = """
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up", os.getpid(), flush=True)
    time.sleep(600)
"""


def all_up(nodes, ranks=2):
    return lambda: all(len(node.said("] up")) == ranks for node in nodes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("told", [0, 1])
def test_a_signal_to_one_node_stops_all_ranks_of_all_nodes(cluster, until, told, number):
    nodes = cluster.start_all(cluster.script(SAVES))
    until(all_up(nodes), "the ranks' start")
    nodes[told].signal(number)
    for node in nodes:
        assert node.wait().code == 75, node.out
        assert len(node.said("saved")) == 2
        assert node.result["state"] == "stopped"
        assert node.result["stop"] == {"reason": number.name, "node_rank": told}
        assert node.cause is None


def test_ranks_that_do_not_leave_are_killed_after_the_grace_time(cluster, until):
    node = cluster.start(cluster.script(IGNORES), flags=["--grace=0.3"])
    until(all_up([node]), "the ranks' start")
    pids = [int(line.split()[-1]) for line in node.said("] up")]
    node.signal(signal.SIGTERM)
    assert node.wait().code == 137
    assert (node.result["state"], node.cause["kind"]) == ("stopped", "stopped")
    assert "killed after the grace time" in node.cause["message"]
    assert not any(alive(pid) for pid in pids)


def test_a_script_that_knows_nothing_of_stops_is_stopped_and_never_0(cluster, until):
    nodes = cluster.start_all(cluster.script("import time\nprint('up', flush=True)\ntime.sleep(600)"))
    until(all_up(nodes), "the ranks' start")
    nodes[0].signal(signal.SIGTERM)
    for node in nodes:
        assert node.wait().code == 143
        assert (node.result["state"], node.cause["kind"]) == ("stopped", "stopped")


def test_ranks_that_leave_with_0_after_a_stop_have_not_finished(cluster, until):
    """On Vertex AI exit 0 is success, and the job would not be run again."""
    node = cluster.start(cluster.script(SAVES.replace("sys.exit(75)", "sys.exit(0)")))
    until(all_up([node]), "the ranks' start")
    node.signal(signal.SIGTERM)
    assert node.wait().code == 75


def test_a_rank_that_leaves_with_75_stops_the_others(cluster):
    leaves = "sys.exit(75) if os.environ['RANK'] == '3' else time.sleep(600)"
    script = cluster.script(SAVES.replace("time.sleep(600)", leaves))
    for node in cluster.run(script, nodes=2):
        assert node.code == 75, node.out
        assert node.result["stop"]["node_rank"] == 1


def test_an_error_while_saving_is_a_failure_not_a_stop(cluster, until):
    script = SAVES.replace("sys.exit(75)", "raise OSError(28, 'No space left on device')")
    node = cluster.start(cluster.script(script))
    until(all_up([node]), "the ranks' start")
    node.signal(signal.SIGTERM)
    assert node.wait().code == 1
    assert node.result["state"] == "failed"
    assert "No space left" in node.cause["message"]
    assert node.result["stop"]["reason"] == "SIGTERM"


def test_a_peers_end_during_a_stop_is_no_failure(cluster, until):
    script = SAVES.replace("sys.exit(75)", "raise RuntimeError('Connection closed by peer')")
    node = cluster.start(cluster.script(script))
    until(all_up([node]), "the ranks' start")
    node.signal(signal.SIGTERM)
    node.wait()
    assert node.result["state"] == "stopped"
    assert node.code == 1


def test_a_second_ctrl_c_means_it(cluster, until):
    node = cluster.start(cluster.script(IGNORES), flags=["--grace=600"])
    until(all_up([node]), "the ranks' start")
    node.signal(signal.SIGINT)
    until(lambda: node.said("stopping: SIGINT"), "the stop")
    node.signal(signal.SIGINT)
    assert node.wait(10).code == 137


def test_a_second_sigterm_leaves_the_grace_time_alone(cluster, until):
    """The notice of a preemption comes first, the machine's own SIGTERM later, while ranks save."""
    script = SAVES.replace('print("saved"', 'time.sleep(0.3); print("saved"')
    node = cluster.start(cluster.script(script))
    until(all_up([node]), "the ranks' start")
    node.signal(signal.SIGTERM)
    until(lambda: node.said("stopping: SIGTERM"), "the stop")
    node.signal(signal.SIGTERM)
    assert node.wait().code == 75, node.out


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stop_before_the_others_came_ends_the_wait(cluster, until, rank):
    node = cluster.start(cluster.script(SAVES), rank=rank, nodes=2)
    until(lambda: _catches(node.pid, signal.SIGTERM), "the agent's start")
    node.signal(signal.SIGTERM)
    assert node.wait(10).code == 75
    assert node.result["ranks"] == []


def test_dataloader_workers_are_not_signalled(cluster, until):
    script = cluster.script("""
        import os, signal, subprocess, sys, time
        sleeper = "import time; print('up', flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", sleeper])
        def stop(number, frame):
            time.sleep(0.2)
            print("child is", child.poll(), flush=True)
            sys.exit(75)
        signal.signal(signal.SIGTERM, stop)
        print("up", flush=True)
        time.sleep(600)
    """)
    node = cluster.start(script, nproc=1)
    until(all_up([node]), "the rank's start")
    node.signal(signal.SIGTERM)
    assert node.wait().code == 75
    assert node.said("child is None"), node.out


def test_a_shell_around_the_program_does_not_swallow_the_stop(cluster, until):
    script = cluster.script(SAVES)
    node = cluster.start(
        "bash", "-c", f"{sys.executable} {script}; exit $?", flags=["--launcher=none"], env={"RANK": "0"}
    )
    until(all_up([node], 1), "the program's start")
    node.signal(signal.SIGTERM)
    assert node.wait(15).code == 75, node.out
    assert node.said("saved")


def test_a_shell_that_handles_the_stop_itself_is_left_to_it(cluster, until):
    text = "trap 'echo trapped; exit 75' TERM; echo up; while :; do sleep 0.05; done"
    node = cluster.start("bash", "-c", text, flags=["--launcher=none"])
    until(all_up([node], 1), "the shell's start")
    node.signal(signal.SIGTERM)
    assert node.wait(15).code == 75
    assert node.said("trapped")


def _catches(pid, number):
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (number - 1) & 1)


def can_unshare():
    return (
        shutil.which("unshare")
        and not subprocess.run(
            ["unshare", "-Ur", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
        ).returncode
    )


@pytest.mark.skipif(not can_unshare(), reason="no PID namespaces here")
def test_the_agent_works_as_process_1(cluster, until):
    script = cluster.script("""
        import os, subprocess, sys, time, signal
        assert os.getppid() == 1
        for _ in range(5):  # orphans, which become children of process 1
            subprocess.run(["sh", "-c", "sleep 0.01 & exit"])
        time.sleep(0.3)
        zombies = [pid for pid in os.listdir("/proc") if pid.isdigit()
                   and open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"]
        print("zombies", zombies, flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
        print("up", flush=True)
        time.sleep(600)
    """)
    python = ("unshare", "-Ur", "--pid", "--fork", "--mount-proc", "--kill-child=SIGTERM", sys.executable)
    node = cluster.start(script, nproc=1, python=python)
    until(all_up([node], 1), "the rank's start")
    assert node.said("zombies []"), node.out
    agent = next(pid for pid in _children(node.pid))
    os.kill(agent, signal.SIGTERM)
    assert node.wait().code == 75, node.out


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


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
    threading.Thread(target=server.serve_forever, daemon=True).start()
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
