"""The gang's book, without clock or network: laws over any order of events, and the corners."""

from hypothesis import given, settings, strategies as st

from gputrain.entrypoint import contract
from gputrain.entrypoint.gang import Gang
from gputrain.entrypoint.verdict import CAUSE_SETTLES_S, SYMPTOM_WAITS_S, is_symptom

IDENTITY = {"job": "j", "attempt": "0"}
SYMPTOM = "RuntimeError: Connection closed by peer [10.0.0.2]:1"


def hello(rank, nproc=2):
    return {"type": "hello", **IDENTITY, "num_nodes": 2, "node_rank": rank, "nproc": nproc, "port": 1}


def gang_of(nodes=2, join_by=100.0):
    gang = Gang(nodes, IDENTITY, lambda rank: f"node {rank}", join_by)
    for rank in range(nodes):
        assert gang.hello(hello(rank), f"10.0.0.{rank}") is None
    gang.start()
    gang.outbox.clear()
    return gang


def cause(kind=contract.EXCEPTION, message="ValueError: bad", signal=None, rank=0):
    return {"kind": kind, "message": message, "signal": signal, "rank": rank, "last_lines": []}


def end(gang, rank, local, code, now, why=None, age=0.0):
    gang.ended(rank, {"type": "ended", "local_rank": local, "exit_code": code, "age": age, "cause": why}, now)


def test_all_ranks_ended_with_0_is_done():
    gang = gang_of()
    for node in (0, 1):
        for local in (0, 1):
            gang.tick(1.0)
            assert gang.verdict is None
            end(gang, node, local, 0, 1.0)
    gang.tick(1.0)
    assert gang.verdict["state"] == "done"
    assert [message["type"] for _, message in gang.outbox] == ["over", "over"]


def test_a_symptom_waits_for_its_cause():
    gang = gang_of()
    end(gang, 0, 0, 1, 10.0, cause(message=SYMPTOM))
    gang.tick(10.0 + SYMPTOM_WAITS_S - 0.1)
    assert gang.outbox == []
    end(gang, 1, 1, 139, 12.0, cause(contract.SIGNAL, "ended by SIGSEGV", "SIGSEGV", rank=3), age=2.5)
    gang.tick(12.0 + CAUSE_SETTLES_S)
    assert {message["cause"]["rank"] for _, message in gang.outbox} == {3}


def test_a_symptom_alone_is_told_in_the_end():
    gang = gang_of()
    end(gang, 0, 0, 1, 10.0, cause(message=SYMPTOM))
    assert gang.deadline() == 10.0 + SYMPTOM_WAITS_S
    gang.tick(gang.deadline())
    assert gang.outbox[0][1]["cause"]["message"] == SYMPTOM


def test_a_rank_that_left_is_blamed_though_its_end_was_seen_after_the_symptom():
    gang = gang_of()
    end(gang, 1, 0, 1, 10.0, cause(message=SYMPTOM, rank=2))
    end(gang, 0, 0, 0, 10.4)
    gang.tick(gang.deadline())
    assert gang.outbox[0][1]["cause"]["kind"] == contract.LEFT_EARLY


def test_a_rank_that_finished_long_after_the_symptom_is_not_blamed():
    gang = gang_of()
    end(gang, 1, 0, 1, 10.0, cause(message=SYMPTOM, rank=2))
    end(gang, 0, 0, 0, 12.9)
    gang.tick(gang.deadline())
    assert gang.outbox[0][1]["cause"]["message"] == SYMPTOM


def test_of_two_causes_the_earlier_wins_though_it_is_heard_later():
    gang = gang_of()
    end(gang, 0, 0, 1, 10.0, cause(message="ValueError: second"))
    end(gang, 1, 0, 1, 10.1, cause(message="ValueError: first"), age=0.3)
    gang.tick(10.0 + CAUSE_SETTLES_S)
    assert gang.outbox[0][1]["cause"]["message"] == "ValueError: first"


def test_a_lost_node_after_its_ranks_had_ended_is_no_failure():
    gang = gang_of()
    for node in (0, 1):
        for local in (0, 1):
            end(gang, node, local, 0, 1.0)
    gang.lost(1, 1.0)
    gang.tick(1.0)
    assert gang.verdict["exit_code"] == 0


def test_a_node_lost_before_the_start_may_come_again():
    gang = Gang(2, IDENTITY, str, 100.0)
    gang.hello(hello(0), "")
    gang.hello(hello(1), "")
    gang.lost(1, 1.0)
    assert not gang.is_complete
    assert gang.hello(hello(1), "") is None
    assert gang.is_complete


def test_a_node_that_comes_back_after_the_start_is_turned_away():
    assert "already started" in gang_of().hello(hello(1), "")


def test_a_stop_when_all_have_finished_is_too_late():
    gang = gang_of()
    for node in (0, 1):
        for local in (0, 1):
            end(gang, node, local, 0, 1.0)
    gang.stop(0, "SIGTERM")
    gang.tick(1.0)
    assert gang.verdict["exit_code"] == 0


def test_nodes_that_never_end_do_not_hold_the_verdict_for_ever():
    gang = gang_of()
    end(gang, 0, 0, 1, 10.0, cause())
    gang.tick(11.0)
    while gang.verdict is None and gang.deadline() < 100.0:
        gang.tick(gang.deadline())
    assert gang.verdict["state"] == "failed"


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ended", "lost", "stop", "quiet", "tick"]),
        st.integers(0, 1),
        st.integers(0, 1),
        st.sampled_from([0, 1, 75, 139, 143]),
        st.sampled_from([None, cause(), cause(message=SYMPTOM), cause(contract.SIGNAL, "x", "SIGTERM")]),
        st.floats(0, 10),
    ),
    max_size=30,
)


@settings(max_examples=300)
@given(EVENTS)
def test_every_story_ends_in_one_verdict_that_never_changes_and_is_0_only_when_all_ended_with_0(events):
    gang, now, codes, verdicts = gang_of(), 1.0, {}, []
    for kind, node, local, code, why, pause in events:
        now += pause
        if kind == "ended" and (node, local) not in codes:
            codes[node, local] = code
            end(gang, node, local, code, now, why)
        elif kind == "lost" and node:
            gang.lost(node, now)
        elif kind == "stop":
            gang.stop(node, "SIGTERM")
        elif kind == "quiet":
            gang.quiet(node, is_quiet=code == 0)
        gang.tick(now)
        verdicts += [gang.verdict] if gang.verdict else []
    for node in (0, 1):
        for local in (0, 1):
            if (node, local) not in codes:
                codes[node, local] = 0
                end(gang, node, local, 0, now)
    gang.tick(now + 1000)
    verdicts.append(gang.verdict)
    assert all(verdict == verdicts[0] for verdict in verdicts)
    assert (gang.verdict["exit_code"] == 0) == (gang.verdict["state"] == "done")
    if gang.verdict["exit_code"] == 0:
        assert set(codes.values()) == {0}


def test_how_torch_words_the_loss_of_a_peer_is_known():
    said = [
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:4.",
        "[../gloo/transport/tcp/pair.cc:534] Read error [10.0.0.3]:1: Connection reset by peer",
        "NCCL error: remote process exited or there was a network error, ncclRemoteError: A call",
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE)",
        "DistNetworkError: failed to recv, got 0 bytes",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ]
    assert all(is_symptom(cause(message=message)) for message in said)
    aborted = {**cause(contract.SIGNAL, "ended by SIGABRT", "SIGABRT"), "last_lines": [said[3]]}
    assert is_symptom(aborted)
    assert not is_symptom(cause(contract.SIGNAL, "ended by SIGSEGV", "SIGSEGV"))
    assert not is_symptom(cause(contract.GPU_MEMORY, "torch.OutOfMemoryError: CUDA out of memory"))
    assert not is_symptom(cause(message="FileNotFoundError: No such file or directory: 'a'"))
