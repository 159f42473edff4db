"""A stop on any node: all ranks of all nodes hear of it, save, and the job exits 75, never 0."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.entrypoint.nodes import alive

SAVES = """
    import os, signal, sys, time
    def stop(number, frame):
        print("saved", os.environ["RANK"], flush=True)
        sys.exit(75)
    signal.signal(signal.SIGTERM, stop)
    print("up", flush=True)
    for _ in range(6000): time.sleep(0.1)  # Python may hear a signal only after a sleep that just begins
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
    assert node.wait().code == 75, node.out


def test_a_rank_that_leaves_with_75_stops_the_others(cluster):
    script = SAVES.replace(
        "for _ in range(6000): time.sleep(0.1)",
        """
    open("up-" + os.environ["RANK"], "w").close()
    while os.environ["RANK"] == "3" and not all(os.path.exists("up-%d" % rank) for rank in range(4)):
        time.sleep(0.01)
    sys.exit(75) if os.environ["RANK"] == "3" else time.sleep(600)
    """,
    )
    for node in cluster.run(cluster.script(script), nodes=2):
        assert node.code == 75, node.out
        assert node.result["stop"]["node_rank"] == 1
        assert node.cause is None


@pytest.mark.parametrize("nproc", [1, 3])
def test_ranks_that_agreed_to_leave_are_not_hurried(cluster, nproc):
    """One is gone first; the signal must not catch the others between their save and their end."""
    script = cluster.script("""
        import os, sys, time
        time.sleep(0.5 * int(os.environ["RANK"]))
        sys.exit(75)
    """)
    node = cluster.run(script, nproc=nproc)
    assert (node.code, node.result["state"]) == (75, "stopped"), node.out


def test_a_stop_does_not_undo_the_end_of_a_rank(cluster, until):
    script = cluster.script("""
        import atexit, os, time
        def upload():
            print("up", flush=True)
            while not os.path.exists("go"):
                time.sleep(0.01)
            print("uploaded", flush=True)
        atexit.register(upload)
    """)
    node = cluster.start(script)
    until(all_up([node]), "the ranks' end")
    node.signal(signal.SIGTERM)
    until(lambda: node.said("stopping"), "the stop")
    (cluster.folder / "go").touch()
    assert node.wait().code == 75
    assert len(node.said("uploaded")) == 2


def test_an_error_while_saving_is_a_failure_not_a_stop(cluster, until):
    script = SAVES.replace("sys.exit(75)", "raise OSError(28, 'No space left on device')")
    node = cluster.start(cluster.script(script))
    until(all_up([node]), "the ranks' start")
    node.signal(signal.SIGTERM)
    assert node.wait().code == 1
    assert node.result["state"] == "failed"
    assert "No space left" in node.cause["message"]
    assert node.result["stop"]["reason"] == "SIGTERM"


def test_a_second_ctrl_c_means_it(cluster, until):
    node = cluster.start(cluster.script(IGNORES), flags=["--grace=600"])
    until(all_up([node]), "the ranks' start")
    node.signal(signal.SIGINT)
    until(lambda: node.said("stopping: SIGINT"), "the stop")
    node.signal(signal.SIGINT)
    assert node.wait(10).code == 137


@pytest.mark.parametrize("save_s", [6, pytest.param(60, marks=pytest.mark.soak)])
def test_a_rank_that_saves_for_longer_than_the_others_is_waited_for(cluster, until, save_s):
    slow = f'time.sleep({save_s} * (os.environ["RANK"] == "2")); print("saved"'
    nodes = cluster.start_all(cluster.script(SAVES.replace('print("saved"', slow)), flags=["--grace=90"])
    until(all_up(nodes), "the ranks' start")
    nodes[0].signal(signal.SIGTERM)
    for node in nodes:
        assert node.wait(120).code == 75, node.out
        assert len(node.said("saved")) == 2


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


@pytest.mark.parametrize("line", ["{}; exit $?", "set -o pipefail; {} 2>&1 | tee /dev/null"])
def test_a_shell_around_the_program_does_not_swallow_the_stop(cluster, until, line):
    program = f"{sys.executable} {cluster.script(SAVES)}"
    node = cluster.start("bash", "-c", line.format(program), flags=["--launcher=none"], env={"RANK": "0"})
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
