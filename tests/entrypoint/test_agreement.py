"""What nodes conclude from their results: laws over any results, and the corners."""

from hypothesis import given, settings, strategies as st

from gputrain.runtime import contract
from gputrain.runtime.failures import Ends, conclusion, is_symptom, node_cause

SYMPTOM = "RuntimeError: Connection closed by peer [10.0.0.2]:1"


def end(at, kind=contract.EXCEPTION, message="ValueError: bad", signal=None, rank=0, code=1):
    cause = node_cause(kind, 0, "", message)
    return {"at": at, "cause": {**cause, "signal": signal, "rank": rank, "exit_code": code}}


def left(at, rank=0):
    return end(at, contract.LEFT_EARLY, "it ended with 0", rank=rank, code=0)


def result(*ends, standings=None):
    return {"ends": list(ends), "is_final": True, "standings": standings}


def stop(at=10.0, reason="SIGTERM"):
    return {"reason": reason, "node_rank": 1, "at": at, "is_agreed": False}


def concluded(*results, asked=None):
    return conclusion(dict(enumerate(results)), asked, 300.0, "node {}".format)


def test_a_symptom_gives_way_to_its_cause_on_whichever_node_and_is_told_alone_otherwise():
    symptom, cause = end(10.0, message=SYMPTOM), end(12.0, contract.SIGNAL, "x", "SIGSEGV", 3, 139)
    for results in ([result(symptom), result(cause)], [result(cause), result(symptom)]):
        assert (concluded(*results)["cause"]["rank"], concluded(*results)["exit_code"]) == (3, 139)
    assert concluded(result(symptom), result())["cause"]["message"] == SYMPTOM


def test_of_two_causes_the_earlier_wins():
    found = concluded(result(end(10.0, message="second")), result(end(9.9, message="first")))
    assert found["cause"]["message"] == "first"


def test_a_rank_that_left_is_blamed_where_only_symptoms_are_and_it_left_about_then():
    symptom = end(10.0, message=SYMPTOM, rank=2)
    assert concluded(result(symptom), result(left(10.4)))["cause"]["kind"] == contract.LEFT_EARLY
    assert concluded(result(symptom), result(left(12.9)))["cause"]["message"] == SYMPTOM


def test_after_a_stop_the_signal_and_a_peers_end_are_no_failures():
    ends = [
        end(10.5, contract.STOP_IGNORED, "it saved nothing", "SIGTERM", code=143),
        end(10.5, contract.SIGNAL, "x", "SIGKILL", code=137),
        end(10.5, message=SYMPTOM),
    ]
    for one in ends:
        found = concluded(result(one), result(), asked=stop())
        assert (found["state"], found["cause"]["message"]) == ("stopped", one["cause"]["message"])
        assert found["exit_code"] == one["cause"]["exit_code"]
        before = {**one, "at": 9.0}
        assert concluded(result(before), result(), asked=stop())["state"] == "failed"
    assert concluded(result(end(10.5)), result(), asked=stop())["state"] == "failed"


ANY_END = st.one_of(
    st.builds(left, st.floats(0, 20)),
    st.builds(
        end,
        st.floats(0, 20),
        st.sampled_from([contract.EXCEPTION, contract.SIGNAL, contract.STOP_IGNORED]),
        st.sampled_from(["bad", SYMPTOM]),
        st.sampled_from([None, "SIGTERM", "SIGSEGV"]),
        st.integers(0, 3),
        st.sampled_from([1, 139, 143]),
    ),
)
ANY_RESULT = st.lists(ANY_END, max_size=3).map(lambda ends: result(*ends))


@settings(max_examples=200)
@given(ANY_RESULT, ANY_RESULT, st.none() | st.builds(stop, st.floats(0, 20)))
def test_any_results_are_0_only_when_all_ended_with_0_and_nobody_asked_to_stop(first, second, asked):
    found = concluded(first, second, asked=asked)
    ends = Ends({0: first, 1: second}, asked)
    assert (found["exit_code"] == 0) == (found["state"] == "done")
    assert (found["exit_code"] == 0) == (asked is None and not ends.failures and not ends.unsaved)
    assert found == concluded(first, second, asked=asked)


def test_how_torch_words_the_loss_of_a_peer_is_known():
    said = [
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:4.",
        "[../gloo/transport/tcp/pair.cc:534] Read error [10.0.0.3]:1: Connection reset by peer",
        "NCCL error: remote process exited or there was a network error, ncclRemoteError: A call",
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE)",
        "DistNetworkError: failed to recv, got 0 bytes",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ]
    assert all(is_symptom(end(0, message=message)["cause"]) for message in said)
    aborted = end(0, contract.SIGNAL, "ended by SIGABRT", "SIGABRT")["cause"]
    assert is_symptom({**aborted, "last_lines": [said[3]]})
    for one in (
        end(0, contract.SIGNAL, "ended by SIGSEGV", "SIGSEGV"),
        end(0, contract.GPU_MEMORY, "torch.OutOfMemoryError: CUDA out of memory"),
        end(0, message="FileNotFoundError: No such file or directory: 'a'"),
    ):
        assert not is_symptom(one["cause"])
