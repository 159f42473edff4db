"""From what lies in the folder of an attempt to its status."""

import json
import shutil

import pytest

from gputrain.backends.agent_reports import read_result, silence
from gputrain.backends.local import folder, status as states
from gputrain.runtime import contract
from tests.each import each


def cause(kind, **more):
    return {**dict.fromkeys(contract.CAUSE_FIELDS), "kind": kind, "message": kind, **more}


def document(node_rank, its_cause, state="failed"):
    return {"node_rank": node_rank, "state": state, "cause": its_cause}


@pytest.fixture
def job(tmp_path):
    """Writes a job's folder as a supervisor that is gone would have left it."""

    def write(told, *documents):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir(mode=0o700)
        (tmp_path / folder.ORDER).write_text(json.dumps({"nodes": [{}] * max(1, len(documents))}))
        (tmp_path / folder.STATE).write_text(json.dumps({"schema": contract.SCHEMA, **told}))
        attempt = tmp_path / folder.ATTEMPT.format(attempt=told.get("attempt", 0))
        attempt.mkdir()
        for one in documents:
            name = contract.RESULT_FILE.format(node_rank=one["node_rank"])
            (attempt / name).write_text(json.dumps(one))
        return str(tmp_path)

    return write


@each(
    ("ages", "told"),
    [([], ""), ([59.0], ""), ([60.0], "1m"), ([300, 90], "1m30s"), ([300, 10], ""), ([None, 120], "2m")],
)
def test_a_silence_is_that_of_whoever_spoke_last_and_told_from_a_minute_on(ages, told):
    documents = [read_result({contract.R_SILENT_S: age}) for age in ages]
    assert silence(documents) == (f"no rank had said anything for {told}" if told else "")


@each(
    ("told", "documents", "kind", "message"),
    [
        ({"exit_code": 3}, [], "exit", "the agent of node 0 ended with exit code 3"),
        ({"exit_code": 3, "disk_was_full": True}, [], "exit", "the disk that holds FOLDER was full"),
        ({"exit_code": contract.STOPPED}, [], "stopped", "it was stopped: from outside"),
        ({"lost": {"1": 9, "2": 15}}, [], "node_lost", "the agent of node 1 was ended by SIGKILL"),
        ({"lost": {"0": 200}}, [], "node_lost", "the agent of node 0 was ended by signal 200"),
        ({"lost": {"0": 9}}, [cause("exception", rank=0)], "exception", "exception"),
        ({"lost": {"0": 9}}, [cause("node_lost")], "node_lost", "the agent of node 0 was ended by SIGKILL"),
        ({"exit_code": 1}, [cause("node_missing")], "node_missing", "node_missing"),
        ({"exit_code": 1, "why": "max_run_duration"}, [], "time_limit", "max_run_duration was reached"),
        ({"why": "max_wait_duration"}, [], "wait_limit", "no machines came within max_wait_duration"),
        ({"why": "boot", "message": "no GPU"}, [], "boot", "no GPU"),
    ],
)
def test_a_bad_end_is_told_by_whoever_knows_best(job, told, documents, kind, message):
    path = job({"phase": "ended", **told}, *(document(0, one) for one in documents))
    failure = states.inspect(path).failure
    assert (failure.kind, failure.message) == (kind, message.replace("FOLDER", path))
