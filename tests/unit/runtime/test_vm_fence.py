"""What a VM's supervisor does about its job's record: at boot, and on the board while its ranks run."""

from types import SimpleNamespace

import pytest

from gputrain.runtime.contract import BOOT, CANCELLED, SHUTDOWN, SUPERSEDED
from gputrain.runtime.supervisor import ASK, KILL, NOTHING, Failed, Rules, Stopped
from gputrain.runtime.vm import Vm
from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import DropBeforeCommit, Refuse
from tests.each import each
from tests.patience import until
from tests.support.records import OTHER, OURS

DENIED = Refuse(error=ApiError(403, "vm@p does not have storage.objects.get access", reason="forbidden"))


@pytest.fixture
def supervisor():
    return SimpleNamespace(rules=Rules(float("inf"), "", 5.0), sleep=lambda _: None)


def boot(node, supervisor):
    vm = Vm.__new__(Vm)
    vm.job, vm.reports = node.job, node.board
    vm._pass(supervisor)


@each(("record", "stop"), [
    (None, SUPERSEDED), (OURS.cancel(), CANCELLED), (OTHER, SUPERSEDED), (OTHER.cancel(), SUPERSEDED)
])  # fmt: skip
def test_a_vm_that_may_not_train_leaves_before_it_begins(record, stop, node, supervisor):
    if record:
        node.write(record)
    with pytest.raises(Stopped):
        boot(node, supervisor)
    assert supervisor.rules.stop == stop
    assert not node.names()


@each(("fault", "named"), [
    (DENIED, r"403.*storage.objects.get access.*roles/storage.objectViewer"),
    (DropBeforeCommit(), r"cannot call .*Private Google Access"),
])  # fmt: skip
def test_a_vm_that_cannot_read_the_record_ends_and_names_what_it_lacks(fault, named, node, cloud, supervisor):
    node.write(OURS)
    order = cloud.fail("storage.objects.get", fault, times=None)
    with pytest.raises(Failed, match=named) as failed:
        boot(node, supervisor)
    order.cancel()
    assert failed.value.why == BOOT


def test_a_board_hears_of_a_cancel_and_then_of_another_attempt(node):
    node.write(OURS)
    node.board.show({"phase": "running"})
    node.write(OURS.cancel())
    until(lambda: node.board.wants() == CANCELLED)
    node.write(OTHER)
    until(lambda: node.board.wants() == SUPERSEDED)


@each("before", ["", CANCELLED, SHUTDOWN])
def test_who_is_superseded_is_killed_at_once_whatever_was_asked_before(before):
    rules = Rules(100.0, "expired", 50.0)
    assert rules.at(1.0, before) == (ASK if before else NOTHING)
    assert [rules.at(now, SUPERSEDED) for now in (2.0, 2.1, 3.0)] == [KILL, NOTHING, KILL]
    assert rules.stop == SUPERSEDED
