"""A board in a bucket that refuses, answers with half of it, or is given what no object can be called."""

import json
import time

import pytest

from gputrain.runtime import reports
from gputrain.runtime.cloud import CallFailed
from gputrain.runtime.contract import ABSENT, BOOT, CANCELLED, HALTED, RESTARTED, SHUTDOWN
from gputrain_emulator import faults
from tests.patience import until
from tests.support.records import OURS

ENDED = {"phase": "ended", "why": BOOT, "message": ""}


@pytest.fixture
def node(node):
    node.write(OURS)
    return node


def test_a_status_that_was_refused_is_told_again_and_the_refusal_said_once(node):
    node.cloud.fail("storage.objects.insert", faults.server_error(403), times=3)
    node.board.show({"phase": "running"})
    until(lambda: node.read("status-0.json") is not None)
    with open(node.log.path) as log:
        assert log.read().count("cannot be written") == 1


@pytest.mark.parametrize(
    ("why", "is_told"), [(BOOT, True), (RESTARTED, True), (HALTED, False), (ABSENT, False)]
)
def test_peers_hear_nothing_of_what_googles_queue_made_too_early_and_took_back(node, why, is_told):
    node.job["is_queued"] = True
    node.board.last({**ENDED, "why": why})
    assert (node.read("failed") is not None) is is_told
    assert json.loads(node.read("status-0.json"))["why"] == why


def test_an_end_that_the_bucket_refuses_for_good_keeps_no_vm(node):
    order = node.cloud.fail("storage.*", faults.server_error(404), times=None)
    began = time.monotonic()
    node.board.last(ENDED)
    assert time.monotonic() - began < reports.LAST_S / 2
    order.cancel()
    assert node.read("status-0.json") is None


LOG = "logs/0-000000000000000"


@pytest.mark.parametrize(("why", "unanswered"), [(CANCELLED, 1), (SHUTDOWN, 0)])
def test_an_end_is_told_before_the_log_where_time_or_the_bucket_fails(node, monkeypatch, why, unanswered):
    put, names = node.board.bucket.put, []

    def told(name, *words, **how):
        names.append(name.rpartition("/")[2])
        if len(names) <= unanswered:
            raise CallFailed("http://storage", "503", 503)
        return put(name, *words, **how)

    monkeypatch.setattr(node.board.bucket, "put", told)
    node.log.hear(b"a line\n")
    node.board.last({**ENDED, "why": why})
    assert names.index("status-0.json") == unanswered
    assert json.loads(node.read("status-0.json"))["why"] == why
    assert node.read(LOG).startswith(b"a line\n")
