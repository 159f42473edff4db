"""Who asks an agent where its ranks stand is answered, by whatever the ranks and the machine offer."""

import json
import shutil
import sys
import time

import pytest

from gputrain.backends.results import node_of, read_standings
from gputrain.entrypoint import contract, hang, messages, stacks, verdict
from gputrain.entrypoint.gang import Gang
from gputrain.job.stacks import Stack, Stacks

BLOCKED = """
    import threading
    def blocked():
        print("up", flush=True)
        threading.Event().wait()
    blocked()
"""
WORKS = """
    import json, threading
    def works():
        while True:
            exec("def short(): return [str(n) for n in range(20)]\\nshort()")
            json.loads(json.dumps({"a": [1, {"b": 2}]}))
    for n in range(2):
        threading.Thread(target=works, daemon=True).start()
    print("up", flush=True)
    {then}
"""
AHEAD = """
    import torch, torch.distributed as dist, threading
    dist.init_process_group("gloo")
    rank, loss = dist.get_rank(), torch.ones(1)
    def waits_for_its_gpu():
        print("up", flush=True)
        threading.Event().wait()
    for step in range(3 if rank else 2):
        dist.all_reduce(loss, async_op=True)
    waits_for_its_gpu()
"""


def asked(folder, nonce, until, node=0):
    (folder / contract.STACKS_ASK).write_text(nonce)
    answer = folder / contract.STACKS_FILE.format(nonce=nonce, node_rank=node)
    until(answer.exists, "the answer")
    return read_standings(answer.read_bytes(), node)


def test_whoever_asks_in_the_result_folder_is_answered_each_time(cluster, until, tmp_path):
    results = tmp_path / "results"
    flags = [f"--result-dir={results}", f"--code-dir={cluster.folder}"]
    node = cluster.start(cluster.script(BLOCKED), nproc=2, flags=flags)
    until(lambda: len(node.said("up")) == 2, "the ranks' start")
    for nonce in ("0123456789abcdef", "fedcba9876543210"):
        began = time.monotonic()
        found = asked(results, nonce, until)
        assert [(one["rank"], one["place"]) for one in found] == [
            (rank, "blocked at train.py:5") for rank in (0, 1)
        ]
        assert all('File "train.py", line 5 in blocked' in one["trace"] for one in found)
        assert "bootstrap" not in found[0]["trace"]
        took = time.monotonic() - began
    assert took < 20
    assert not node.said("stands at")  # it is told to those who ask, not to the log


@pytest.mark.parametrize("then", ["works()", "threading.Event().wait()"])
def test_ranks_that_work_take_no_harm_from_being_asked(cluster, until, then):
    """A handler in C that reads the frames of threads that run ended such a rank after a few questions."""
    node = cluster.start(
        cluster.script(WORKS.replace("{then}", then)), nproc=2, env={"TMPDIR": str(cluster.folder)}
    )
    until(lambda: len(node.said("up")) == 2, "the ranks' start")
    (folder,) = [path for path in cluster.folder.glob("gputrain-*") if path.is_dir()]
    for _ in range(50):
        found = stacks.take(str(folder))
        assert [(one["rank"], one["absent"]) for one in found] == [(0, ""), (1, "")], node.out
    assert node.process.poll() is None, node.out


def test_a_word_that_is_no_question_is_passed_over(cluster, until, tmp_path):
    results = tmp_path / "results"
    node = cluster.start(cluster.script(BLOCKED), nproc=1, flags=[f"--result-dir={results}"])
    until(lambda: node.said("up"), "the rank's start")
    for word in ("", "../../x", "Z" * 16, "ab" * 60):
        (results / contract.STACKS_ASK).write_text(word)
    assert asked(results, "0123456789abcdef", until)
    assert [path.name for path in results.glob("stacks-*")] == ["stacks-0123456789abcdef-0.json"]


@pytest.mark.skipif(shutil.which("py-spy") is None, reason="py-spy is not installed")
def test_a_program_of_ones_own_is_looked_into_by_py_spy(cluster, until, tmp_path):
    results, script = tmp_path / "results", cluster.script(BLOCKED)
    words = ("sh", "-c", f"{sys.executable} -u {script}; true")
    node = cluster.start(*words, nproc=1, flags=["--launcher=none", f"--result-dir={results}"])
    until(lambda: node.said("up"), "the program's start")
    (found,) = asked(results, "0123456789abcdef", until)
    assert found["place"] == "blocked at train.py:5"


def test_a_script_that_removes_what_lies_about_is_asked_too(cluster, until, tmp_path):
    """As one that empties /tmp: its agent's folder goes along."""
    results = tmp_path / "results"
    wipe = """
    import os, shutil, threading
    shutil.rmtree(os.path.dirname(os.environ["GPUTRAIN_ERROR_FILE"]))
    print("up", flush=True)
    threading.Event().wait()
    """
    path = {"PATH": str(tmp_path)}  # no py-spy
    node = cluster.start(cluster.script(wipe), nproc=1, flags=[f"--result-dir={results}"], env=path)
    until(lambda: node.said("up"), "the rank's start")
    (found,) = asked(results, "0123456789abcdef", until)
    assert found["absent"] == stacks.UNOFFERED


def test_a_py_spy_that_cannot_be_run_takes_no_job_along(cluster, until, tmp_path):
    spy, results = tmp_path / "bin" / "py-spy", tmp_path / "results"
    spy.parent.mkdir()
    spy.write_text("#!/nowhere/python\n")
    spy.chmod(0o755)
    path = {"PATH": str(spy.parent)}  # no other
    script = f"exec {sys.executable} -uc 'import time; print(\"up\"); time.sleep(600)'"
    node = cluster.start("/bin/sh", "-c", script, nproc=1, flags=[f"--result-dir={results}"], env=path)
    until(lambda: node.said("up"), "the program's start")
    (found,) = asked(results, "0123456789abcdef", until)
    assert found["absent"] == stacks.UNOFFERED


def test_ranks_that_stand_at_one_place_are_told_apart_by_what_they_began(cluster, until, tmp_path):
    results = tmp_path / "results"
    flags = [f"--result-dir={results}", "--hang-timeout=600"]
    node = cluster.start(cluster.script(AHEAD), nproc=3, flags=flags)
    until(lambda: len(node.said("up")) == 3, "the ranks' start")
    found = asked(results, "0123456789abcdef", until)
    (group,) = found[0]["recorded"]  # which says where torch is built with NCCL that it is gloo's
    assert [one["recorded"][group]["begun"] for one in found] == [2, 3, 3]
    guilty, story = hang.story(found)
    assert guilty["rank"] == 0
    assert "rank 0 began 2 and ranks 1, 2 began 3 collectives, the last of them gloo:all_reduce" in story


def test_collectives_of_nccl_and_of_gloo_are_counted_apart(cluster, until, tmp_path):
    """A torch that is built with NCCL has a recorder of each, and group 0 may use both."""
    told = {"last_enqueued_collective": 7, "last_completed_collective": 6}
    entry = {"process_group": ["0", "default"], "collective_seq_id": 7, "profiling_name": "nccl:all_reduce"}
    document = {"pg_status": {"0": told}, "entries": [entry]}
    results, script = (
        tmp_path / "results",
        cluster.script(f"""
        import json, threading
        import torch, torch.distributed as dist
        from torch._C import _distributed_c10d as c10d
        c10d._dump_nccl_trace_json = lambda: json.dumps({document}).encode()
        dist.init_process_group("gloo")
        dist.all_reduce(torch.ones(1))
        print("up", flush=True)
        threading.Event().wait()
    """),
    )
    flags = [f"--result-dir={results}", "--hang-timeout=600"]
    node = cluster.start(script, nproc=1, flags=flags)
    until(lambda: node.said("up"), "the rank's start")
    (found,) = asked(results, "0123456789abcdef", until)
    assert found["recorded"]["0"] == {"begun": 7, "done": 6, "name": "nccl:all_reduce"}
    assert found["recorded"]["0 (gloo)"] == {"begun": 1, "done": 1, "name": "gloo:all_reduce"}


def test_an_answer_may_hold_anything():
    odd = [{"rank": True}, {"rank": 1, "place": 3, "recorded": {"0": {"begun": "x"}, "1": 4}}, 7, None]
    (one,) = read_standings(json.dumps({"ranks": odd}).encode(), 4)
    assert (one["rank"], one["node_rank"], one["place"], one["recorded"]) == (1, 4, "", {})
    for junk in (b"", b"[]", b"[" * 100_000, b'{"ranks": 1}', b"\xff"):
        assert read_standings(junk, 0) == ()
    assert (node_of("x/lock-stacks-ab-3.json", "ab"), node_of("stacks-ab-../3.json", "ab")) == (3, None)


def test_nodes_may_tell_of_collectives_and_nothing_else():
    rank = {"rank": 0, "local_rank": 0, "collective": "", "place": "", "trace": ""}
    good = {**rank, "absent": "could not be asked", "recorded": {"0": {"begun": 2, "done": 1, "name": "x"}}}
    assert messages.read({"type": "standings", "ranks": [good]})["ranks"] == [good]
    (bare,) = messages.read({"type": "standings", "ranks": [rank]})["ranks"]
    assert (bare["recorded"], bare["absent"]) == ({}, "")
    bad = {**rank, "recorded": {"0": {"begun": "2", "done": 1, "name": "x"}}}
    assert messages.read({"type": "standings", "ranks": [bad]})["type"] == messages.NONSENSE


def test_a_node_that_did_not_answer_is_named():
    one = Stack(rank=0, local_rank=0, node_rank=0, collective="", place="f at t.py:1", trace="x")
    assert Stacks(ranks=(one,), missing=(1,)).story.endswith(
        "; node 1 did not tell in time where its ranks stand"
    )
    told = hang.cause(300, [], left=[], mute=["node 1"])
    assert told["message"].endswith("node 1 did not tell in time where its ranks stand")


def test_who_answers_is_slow_and_who_answers_no_more_is_lost():
    beat = verdict.Pulse(40.0)
    now, asked_for, lost = 0.0, set(), []
    while not lost:
        to_ask, lost = beat.look(now, [1, 2])
        asked_for.update(to_ask)
        for node in to_ask:
            if node == 1:
                beat.heard(1, now + 0.1)
        now = beat.deadline()
        assert now <= 60
    assert (lost, asked_for) == ([2], {1, 2})


def test_who_was_held_up_itself_blames_nobody_for_it():
    beat = verdict.Pulse(40.0)
    beat.look(0.0, [1])
    assert beat.look(1000.0, [1])[1] == []  # this machine was stopped, and so it heard nothing
    beat.heard(1, 1000.1)
    assert beat.look(1010.0, [1])[1] == []


def test_a_node_whose_agent_stands_still_is_a_node_lost():
    gang = Gang(2, {"job": "j", "attempt": "0"}, lambda rank: f"node {rank}", 100.0)
    for rank in (0, 1):
        hello = {"job": "j", "attempt": "0", "num_nodes": 2, "node_rank": rank, "nproc": 1, "port": 1}
        assert gang.hello(hello, "10.0.0.1") is None
    gang.start()
    now = 0.0
    while gang.verdict is None and now < 1000:
        gang.tick(now)
        if any(message["type"] == "abort" for _, message in gang.outbox):
            break
        now = gang.deadline()
    cause = gang.outbox[-1][1]["cause"]
    assert (cause["kind"], cause["node_rank"]) == (contract.NODE_LOSS, 1)
    assert (
        cause["message"] == "node 1 answers no more: nothing came from it for 120 s, though it is connected"
    )
    assert now <= 155


@pytest.mark.check
@pytest.mark.parametrize("frozen", [0, 1])
def test_a_stopped_agent_is_found_on_either_side(cluster, until, frozen):
    import signal

    nodes = cluster.start_all(cluster.script(BLOCKED), nodes=2, nproc=1, flags=["--hang-timeout=12"])
    until(lambda: all(node.said("up") for node in nodes), "the ranks' start")
    nodes[frozen].signal(signal.SIGSTOP)
    other = nodes[1 - frozen].wait(90)
    assert (other.code, other.cause["kind"], other.cause["node_rank"]) == (69, "node_lost", frozen), other.out
    assert "answers no more" in other.cause["message"]
