"""What a VM does for a plugin of NCCL, with a docker of the test and a metadata server that names ``lo``."""

import json
import os
import subprocess
import sys
import time

import pytest

from gputrain import catalog
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.compute.networking import document
from gputrain.runtime import gpu_network
from tests.unit.google.answering import Server

DOCKER = """#!{python}
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
words = sys.argv[1:]
with open(folder / "calls", "a") as log:
    log.write(json.dumps(words) + chr(10))
mode = (folder / "mode").read_text()
if words[0] == "run" and "install" in words and mode != "no plugin":
    (folder / "lib64").mkdir(exist_ok=True)
    (folder / "lib64" / "libnccl-net.so").write_text("")
if words[0] == "run" and "--detach" in words and mode == "serves":
    (folder / "tcpx" / "socket").write_text("")
if words[0] == "inspect":
    print("false" if mode == "ends" else "true")
if words[0] == "logs":
    print({ready!r} if mode == "serves" else "Failed to create dmabuf importer context")
sys.exit(1 if words[0] == "run" and mode == "refuses" else 0)
"""


class Hands:
    """Runs programs as a supervisor does."""

    def call(self, argv, env=os.environ, given=b""):
        done = subprocess.run(argv, env=env, input=given, capture_output=True, check=False)
        return done.returncode, (done.stdout + done.stderr).decode().strip()

    def sleep(self, seconds):
        time.sleep(min(seconds, 0.01))


@pytest.fixture(autouse=True)
def metadata(monkeypatch):
    def answer(request):
        is_token = "token" in request.path
        told = json.dumps({"access_token": "t", "expires_in": 60}) if is_token else server.address
        return 200, told.encode(), {}

    server = Server(answer)
    server.address = "127.0.0.1"
    monkeypatch.setenv("GCE_METADATA_HOST", server.url.partition("//")[2])
    yield server
    server.close()


@pytest.fixture
def vm(tmp_path, monkeypatch):
    """Sets how the test's docker behaves; the calls that it got are read back."""
    folder = tmp_path / "vm"
    (folder / "tcpx").mkdir(parents=True)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER.format(python=sys.executable, folder=str(folder), ready=gpu_network.READY))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(gpu_network, "TCPX", str(folder / "tcpx"))
    monkeypatch.setattr(gpu_network, "READY_S", 0.5)
    monkeypatch.setattr(gpu_network, "LINKED_S", 0.2)
    (folder / "mode").write_text("serves")
    return folder


def wanted(vm, machine_type, networking, **settings):
    """The part of a job's document that a VM of the type gets, its libraries in a folder of the test."""
    backend = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://b-1", **settings)
    shape = next(one for one in catalog.shapes() if one.machine_type == machine_type)
    row = next(one for one in catalog.fabrics(shape) if str(one.networking) == networking)
    return {**document(row, backend._settings), "libraries": str(vm / "lib64")}


def calls(vm):
    return [json.loads(line) for line in (vm / "calls").read_text().splitlines()]


def test_tcpx_is_installed_its_daemon_serves_and_ranks_are_told(vm):
    job = wanted(vm, "a3-highgpu-8g", "tcpx", nccl_plugin="us-docker.pkg.dev/p/r/plugin:v9")
    env = gpu_network.prepare(Hands(), job, lambda *_: None)
    assert env["NCCL_LIB_DIR"] == str(vm / "lib64")
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == ("lo", "lo")
    assert env["NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"] == "lo,lo,lo,lo"
    assert env["NCCL_GPUDIRECTTCPX_TX_BINDINGS"].startswith("lo:8-21,112-125;lo:8-21")
    said = calls(vm)
    assert [words[0] for words in said[:6]] == ["login", "pull", "run", "login", "pull", "run"]
    assert "us-docker.pkg.dev/p/r/plugin:v9" in said[2]
    assert said[2][-2:] == ["install", "--install-nccl"]
    assert {"--detach", "--privileged", "/run/tcpx:/run/tcpx"} <= set(said[5])
    assert said[5][said[5].index("--uds_path") + 1] == "/run/tcpx"


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("ends", "it ended by itself: Failed to create dmabuf importer context"),
        ("late", "it is not ready after 0.5 s"),
        ("refuses", "cannot be installed"),
        ("no plugin", "left no libnccl-net"),
    ],
)
def test_a_plugin_that_does_not_serve_ends_the_node_and_says_what_to_do(vm, mode, told):
    (vm / "mode").write_text(mode)
    if mode == "no plugin":
        (vm / "tcpx" / "socket").write_text("")
    with pytest.raises(gpu_network.Failed, match=told) as caught:
        gpu_network.prepare(Hands(), wanted(vm, "a3-highgpu-8g", "tcpx"), lambda *_: None)
    assert "gpu_networking='single-nic'" in str(caught.value)


@pytest.mark.skipif(os.path.isdir("/sys/class/infiniband"), reason="this machine has RDMA")
def test_gib_asks_for_a_boot_image_that_sees_rdma(vm):
    with pytest.raises(gpu_network.Failed, match="sees no RDMA interface"):
        gpu_network.prepare(Hands(), wanted(vm, "a4-highgpu-8g", "gib"), lambda *_: None)
    assert not (vm / "calls").exists()


def test_an_interface_that_does_not_come_up_is_told(vm, metadata):
    metadata.address = "192.0.2.7"
    with pytest.raises(gpu_network.Failed, match="5 of 5 network interfaces have no address"):
        gpu_network.prepare(Hands(), wanted(vm, "a3-highgpu-8g", "tcpx"), lambda *_: None)


def test_plain_sockets_over_two_interfaces_bring_nothing(vm):
    env = gpu_network.prepare(Hands(), {**wanted(vm, "g4-standard-384", "multi-nic"), "libraries": ""}, print)
    assert env == {"NCCL_SOCKET_IFNAME": "lo,lo", "GLOO_SOCKET_IFNAME": "lo"}
    assert not (vm / "calls").exists()
