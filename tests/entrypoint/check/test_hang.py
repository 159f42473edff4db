"""A job that stands still is found, explained by the stacks of all its ranks, and ended."""

import os
import time

import pytest

from gputrain.entrypoint import contract, hang, stacks

DEADLOCK = """
    import threading, time
    ready = threading.Event()
    def speak():
        while not ready.wait(1.0):
            print("importing", flush=True)  # which takes its time on a busy machine
    threading.Thread(target=speak).start()
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    def evaluate():
        print("evaluating", flush=True)
        time.sleep(600)
    def train():
        loss = torch.ones(1)
        dist.all_reduce(loss)
        ready.set()
        if rank == 1:
            evaluate()
        dist.all_reduce(loss)
    train()
"""
SLEEPS = """
    import os, time
    def stuck():
        time.sleep(600)
    {before}
    stuck()
"""


def standing(rank, collective, place, absent=""):
    return {
        "absent": absent,
        "rank": rank,
        "local_rank": 0,
        "node_rank": rank,
        "collective": collective,
        "place": place,
        "trace": "" if absent else "t",
    }


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_the_rank_that_skips_a_collective_is_blamed_with_its_own_stack(cluster, nodes):
    script = cluster.script(DEADLOCK)
    ended = cluster.run(script, nodes=nodes, nproc=4 // nodes, flags=["--hang-timeout=6"])
    for node in [ended] if nodes == 1 else ended:
        cause = node.cause
        assert (node.code, cause["kind"], cause["rank"]) == (1, "hang", 1), node.out
        assert "rank 1 never came to it: evaluate at train.py:13" in cause["message"]
        assert "ranks 0, 2, 3 in all_reduce, from train at train.py:20" in cause["message"]
        assert "in evaluate" in cause["traceback"]
        assert "all_reduce" not in cause["traceback"]


def test_a_hang_is_found_in_little_more_than_its_timeout(cluster):
    node = cluster.run(
        cluster.script(SLEEPS.format(before="print(time.time(), flush=True)")),
        nproc=1,
        flags=["--hang-timeout=8"],
    )
    spoke = float(next(line for line in node.lines if line.startswith("[0] ")).split()[1])
    found = next(line for line in node.lines if "first cause" in line)
    assert "stuck at train.py:4" in found
    silent_s = float(found.partition("silent for ")[2].split()[0])
    assert silent_s == 8
    ended = node.result["ended_at"]
    from datetime import datetime

    took = datetime.fromisoformat(ended.replace("Z", "+00:00")).timestamp() - spoke
    assert took < 8 * 1.1 + 2  # the rank's end and a busy machine


def test_a_killed_agent_leaves_its_ranks_documents_where_they_go_with_the_job(cluster, until):
    (cluster.folder / "tmp").mkdir()
    results = cluster.folder / "results"
    node = cluster.start(
        cluster.script("print('up', flush=True); import time; time.sleep(600)"),
        flags=["--result-dir", results],
        env={"TMPDIR": str(cluster.folder / "tmp")},
    )
    until(lambda: node.said("up"), "the ranks' start")
    node.signal(9)
    node.wait()
    assert list((cluster.folder / "tmp").iterdir()) == []
    assert len([path for path in results.iterdir() if path.is_dir()]) == 1


def test_a_rank_that_speaks_now_and_then_does_not_hang(cluster):
    script = cluster.script("""
        import os, time
        for _ in range(8):
            time.sleep(0.5)
            if os.environ["RANK"] == "0":
                print("step", flush=True)
    """)
    nodes = cluster.run(script, nodes=2, nproc=1, flags=["--hang-timeout=3"])
    assert [node.code for node in nodes] == [0, 0], nodes[0].out


def test_steps_without_a_word_are_signs_of_life(cluster):
    script = cluster.script("""
        import time
        from gputrain.ddp import report
        for _ in range(10):
            time.sleep(0.5)
            report.beat()
    """)
    node = cluster.run(script, nproc=1, flags=["--hang-timeout=3"])
    assert node.code == 0, node.out


@pytest.mark.parametrize("set_s", [-7200, 7200])
def test_a_clock_that_is_set_while_ranks_step_is_no_hang_and_hides_none(cluster, set_s):
    script = cluster.script(f"""
        import os, time
        from gputrain.ddp import report
        right, utime, turns = time.time, os.utime, [0]
        os.utime = lambda path: utime(path, (right() + {set_s} * (turns[0] > 4),) * 2)
        for turns[0] in range(12):
            time.sleep(0.5)
            report.beat()
        print("stops", flush=True)
        time.sleep(600)
    """)
    node = cluster.run(script, nproc=1, flags=["--hang-timeout=4"])
    assert node.said("stops"), node.out
    assert node.cause["kind"] == "hang"


def test_a_program_that_is_not_ours_hangs_without_stacks(cluster):
    node = cluster.run("sh", "-c", "sleep 600", nproc=1, flags=["--launcher=none", "--hang-timeout=2"])
    assert (node.cause["kind"], node.cause["rank"]) == ("hang", None)
    assert hang.UNKNOWN in node.cause["message"]


def test_without_a_timeout_nobody_is_watched(cluster, until):
    node = cluster.start(cluster.script("import time; time.sleep(4)"), nproc=1)
    assert node.wait().code == 0


def test_a_rank_that_has_left_is_told_beside_those_that_wait_for_it():
    waiting = [standing(rank, "all_reduce", "train at train.py:9") for rank in (0, 2)]
    told = hang.cause(300, waiting, left=[1])
    assert told["message"].endswith(
        "ranks 0, 2 in all_reduce, from train at train.py:9; rank 1 had ended with 0 before"
    )


def test_of_ranks_that_wait_for_each_other_the_few_are_named_first():
    apart = [
        standing(0, "barrier", "a at t.py:1"),
        *(standing(n, "all_reduce", "b at t.py:2") for n in (1, 2)),
    ]
    told = hang.cause(300, apart, left=[])
    assert told["rank"] == 0
    assert (
        "different places: rank 0 in barrier, from a at t.py:1; ranks 1, 2 in all_reduce" in told["message"]
    )


def test_all_in_one_collective_speak_of_the_network():
    told = hang.cause(300, [standing(n, "all_reduce", "b at t.py:2") for n in range(4)], left=[])
    assert "ranks 0 to 3 in all_reduce, from b at t.py:2; all came" in told["message"]


UNASKED = "could not be asked: a reason"


@pytest.mark.parametrize(
    ("told", "mute", "rank", "said"),
    [
        ([standing(2, "", "", UNASKED)], (), 2, "1 in all_reduce, from b at t.py:2; rank 2 could not"),
        ([], ["node 1"], 0, "ranks 0, 1 in all_reduce, from b at t.py:2; node 1 did not tell in time"),
        ([standing(2, "", "e at t.py:9"), standing(3, "", "", UNASKED)], (), 2, "rank 2 never came to it"),
    ],
)
def test_that_all_came_is_said_only_where_all_told_so(told, mute, rank, said):
    waiting = [standing(n, "all_reduce", "b at t.py:2") for n in (0, 1)]
    cause = hang.cause(300, [*waiting, *told], left=[], mute=mute)
    assert said in cause["message"]
    assert "network" not in cause["message"]
    assert cause["rank"] == rank
    assert cause["traceback"].endswith("most recent call first:\nt")  # some stack rather than none


def test_a_rank_that_left_is_blamed_by_those_alone_that_wait_for_others():
    gone = standing(1, "", "", "had ended with 0 before")
    for collective, rank in (("all_reduce", 1), ("", 0)):
        told = hang.cause(300, [standing(0, collective, "f at t.py:2"), gone], left=[1])
        assert (told["rank"], told["message"].count("rank 1")) == (rank, 1)


def test_ranks_that_cannot_be_asked_are_named_with_why(cluster):
    script = cluster.script("""
        import os, signal, sys, threading
        rank = int(os.environ["RANK"])
        def stuck():
            threading.Event().wait()
        if rank == 1:
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"])
        if rank == 2:  # which is no hindrance
            for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):
                signal.signal(number, signal.SIG_IGN)
        if rank == 3:
            os.kill(os.getpid(), signal.SIGSTOP)
        stuck()
    """)
    # Without py-spy, which may be beside this Python.
    node = cluster.run(script, nproc=5, flags=["--hang-timeout=4"], env={"PATH": os.defpath})
    told = node.cause["message"]
    assert f"ranks 0, 2, 4 in stuck at train.py:5; rank 1 {stacks.UNHEARD}; rank 3 could not be" in told
    assert told.endswith("stopped by a signal, as by SIGSTOP")
    assert node.cause["rank"] == 1


def test_native_code_that_keeps_the_interpreter_is_looked_through_by_a_signal(cluster):
    script = cluster.script("""
        def computes():
            sum(range(10**12))
        computes()
    """)
    node = cluster.run(script, nproc=1, flags=["--hang-timeout=4"], env={"PATH": os.defpath})
    assert "rank 0 in computes at train.py:3" in node.cause["message"], node.out


def test_one_that_answers_slowly_takes_nothing_of_the_others_time(cluster):
    script = cluster.script("""
        import os, threading
        def computes():
            print("computing", flush=True)
            sum(range(10**12))  # holds the interpreter's lock, so torch's recorder cannot be asked
        def stuck():
            threading.Event().wait()
        computes() if os.environ["RANK"] == "1" else stuck()
    """)
    node = cluster.run(script, nproc=6, flags=["--hang-timeout=4"])
    assert "ranks 0, 2 to 5 in stuck at train.py:7" in node.cause["message"]
    assert "rank 1 in computes at train.py:5" in node.cause["message"]


def test_who_is_still_importing_is_told_that_the_timeout_is_short(cluster):
    (cluster.folder / "slow.py").write_text("import time\nprint('in', flush=True)\ntime.sleep(600)\n")
    node = cluster.run(cluster.script("import slow"), nproc=2, flags=["--hang-timeout=3"])
    assert "still importing: hang_timeout is shorter than the start" in node.cause["message"]


def test_the_stacks_of_ranks_in_a_blocked_call_come_at_once(cluster, until):
    script = cluster.script("""
        import os, threading
        pipe = os.pipe()
        def blocked():
            print("up", flush=True)
            os.read(pipe[0], 1)
        blocked()
    """)
    node = cluster.start(script, nproc=4, env={"TMPDIR": str(cluster.folder)})
    until(lambda: len(node.said("up")) == 4, "the ranks' start")
    (folder,) = [path for path in cluster.folder.glob("gputrain-*") if path.is_dir()]
    began = time.monotonic()
    found = [stacks.standing(one) for one in stacks.take(str(folder))]
    assert time.monotonic() - began < 2
    assert [(one["rank"], one["collective"], one["place"]) for one in found] == [
        (rank, "", "blocked at train.py:6") for rank in range(4)
    ]


def test_a_process_without_the_handler_is_not_signalled(cluster, tmp_path):
    import subprocess

    with subprocess.Popen(["sleep", "30"]) as process:
        (tmp_path / f"stacks-0-0-{process.pid}").touch()
        (told,) = stacks.take(str(tmp_path))
        assert (told["rank"], told["absent"]) == (0, stacks.UNHEARD)
        assert process.poll() is None
        process.kill()
    assert stacks.take(str(tmp_path)) == []  # nor is one that is gone told of


def test_the_kind_is_in_the_contract():
    assert contract.HANG in contract.CAUSE_KINDS
