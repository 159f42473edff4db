"""One table says why jobs end: whatever is recognised has its row, and every row says what to do."""

import math

import pytest

from gputrain import causes
from gputrain.backends.agent_reports import first_cause
from gputrain.causes import CAUSES, Blame
from gputrain.lifecycle import State
from gputrain.runtime import contract


def blamed(kind, signal=None):
    cause = {contract.C_KIND: kind, contract.C_SIGNAL: signal}
    return first_cause([{contract.R_NODE_RANK: 0, contract.R_CAUSE: cause}]).kind


def test_every_word_of_the_agents_has_its_row():
    assert {blamed(kind) for kind in contract.CAUSE_KINDS} <= set(CAUSES)


@pytest.mark.parametrize(
    ("signal", "kind"),
    [("SIGKILL", "killed"), ("SIGSEGV", "crashed"), ("SIGABRT", "crashed"), ("SIGUSR2", "signal")],
)
def test_a_crash_is_told_from_a_kill(signal, kind):
    assert blamed(contract.SIGNAL, signal) == kind


def test_a_kind_of_tomorrow_is_unknown_and_nothing_is_tried_again_for_it():
    cause = causes.of("of tomorrow")
    assert (cause, cause.may_restart, cause.fault) == (causes.UNKNOWN, False, Blame.USER)


def test_every_row_ends_a_job_and_says_what_to_do():
    for row in CAUSES.values():
        assert row.state.is_terminal
        assert row.state is not State.SUCCEEDED
        assert row.title
        assert row.fix


def test_a_failure_holds_texts_and_numbers_whatever_a_bucket_holds():
    for value in (None, True, -1, 1.5, math.nan, 10**400, "\ud800", "a", [], [[1]], {}, {"a": 1}):
        cause = {**dict.fromkeys(contract.CAUSE_FIELDS, value), contract.C_KIND: contract.EXCEPTION}
        failure = first_cause([{contract.R_NODE_RANK: value, contract.R_CAUSE: cause}])
        texts = (failure.kind, failure.message, failure.traceback, *failure.last_lines)
        assert all(isinstance(one, str) and one.encode() is not None for one in texts)
        assert {type(one) for one in (failure.rank, failure.node_rank, failure.exit_code)} <= {
            int,
            type(None),
        }
