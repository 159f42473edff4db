"""Who asks an agent where its ranks stand is answered, by whatever the ranks and the machine offer."""

import json
import sys
import time

import pytest

from gputrain.backends.agent_reports import node_of, read_standings
from gputrain.job.stacks import Stack, Stacks
from gputrain.runtime import contract, stacks

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
    works()
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


def test_ranks_that_work_take_no_harm_from_being_asked(cluster, until):
    node = cluster.start(cluster.script(WORKS), nproc=2, env={"TMPDIR": str(cluster.folder)})
    until(lambda: len(node.said("up")) == 2, "the ranks' start")
    (folder,) = [path for path in cluster.folder.glob("gputrain-*") if path.is_dir()]
    for _ in range(20):
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


def test_a_program_of_ones_own_offers_no_stack(cluster, until, tmp_path):
    results = tmp_path / "results"
    script = f"exec {sys.executable} -uc 'import time; print(\"up\"); time.sleep(600)'"
    node = cluster.start("/bin/sh", "-c", script, nproc=1, flags=[f"--result-dir={results}"])
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
    guilty, story = stacks.story(found)
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


def test_a_node_that_did_not_answer_is_named():
    one = Stack(rank=0, local_rank=0, node_rank=0, collective="", place="f at t.py:1", trace="x")
    assert Stacks(ranks=(one,), missing=(1,)).story.endswith(
        "; node 1 did not tell in time where its ranks stand"
    )


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
