"""The network that NCCL takes is told once; another than the planned one is a warning on its node.

No machine here has NCCL's fast networks, so the script writes what NCCL writes where it is asked to.
"""

import sys

import pytest

from gputrain.runtime import launcher

SAYS = """
    import os, socket
    path, local = os.environ.get("NCCL_DEBUG_FILE", ""), os.environ["LOCAL_RANK"]
    if path and local == "0":
        path = path.replace("%h", socket.gethostname()).replace("%p", str(os.getpid()))
        with open(path, "w") as file:
            for said in ("NET/Plugin: Loaded net plugin", TAKEN[int(os.environ["GROUP_RANK"])]):
                print("vm:7:7 [0] NCCL INFO", said, file=file)
    print("asked", local, os.environ.get("NCCL_DEBUG", "-"), bool(path))
"""


def run(cluster, *taken, env=None, nodes=2):
    script = cluster.script(f"    TAKEN = {taken!r}\n" + SAYS)
    started = cluster.start_all(script, nodes=nodes, nproc=2, env=env)
    assert [node.wait().code for node in started] == [0] * nodes
    return [[line for line in node.lines if "NCCL talks" in line] for node in started], started


def test_what_was_planned_is_told_once(cluster):
    said, started = run(cluster, *["Using network gIB"] * 2, env={"GPUTRAIN_NCCL_NET": "gIB"})
    assert said == [["[node 0] NCCL talks to other nodes by gIB, as planned"], []]
    assert [line for line in started[0].lines if "asked" in line and "[0]" in line] == [
        "[0] asked 0 INFO True"
    ]
    assert [line for line in started[0].lines if "asked" in line and "[1]" in line] == ["[1] asked 1 - False"]


def test_a_node_that_fell_back_to_sockets_is_named(cluster):
    taken = ["Assigned NET plugin FasTrak to comm", "Using network Socket"]
    said, _ = run(cluster, *taken, env={"GPUTRAIN_NCCL_NET": "FasTrak"})
    assert said[0] == ["[node 0] NCCL talks to other nodes by FasTrak, as planned"]
    (line,) = said[1]
    assert line.startswith("[node 1] NCCL talks to other nodes by Socket, and FasTrak was planned.")


@pytest.mark.parametrize("own", ["WARN", "INFO"])
def test_whoever_asks_nccl_for_its_output_gets_it(cluster, own):
    said, started = run(cluster, *["Using network gIB"] * 2, env={"NCCL_DEBUG": own})
    assert said == [[], []]
    assert f"[0] asked 0 {own} False" in started[0].lines


@pytest.mark.skipif(sys.platform != "linux", reason="the loader's path")
def test_the_plugins_folder_comes_first_and_the_images_own_stay(tmp_path):
    folder = tmp_path / "lib64"
    folder.mkdir()
    own = {"NCCL_LIB_DIR": str(folder), "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
    assert launcher.network_profile(own)["LD_LIBRARY_PATH"] == f"{folder}:/usr/local/nvidia/lib64"
    (folder / "nccl-env-profile.sh").write_text(
        "export NCCL_BUFFSIZE=8388608 LD_LIBRARY_PATH=$NCCL_LIB_DIR:$LD_LIBRARY_PATH\n"
    )
    found = launcher.network_profile(own)
    assert found["LD_LIBRARY_PATH"] == f"{folder}:/usr/local/nvidia/lib64"
    assert found["NCCL_BUFFSIZE"] == "8388608"
    assert "LD_LIBRARY_PATH" not in launcher.network_profile({"NCCL_LIB_DIR": "/no/such/folder"})
