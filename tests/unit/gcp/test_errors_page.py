"""The page of errors says what the tables say, and the tables say it all."""

import inspect
import re

import pytest

from gputrain import errors
from gputrain.causes import CAUSES
from gputrain.errors import CapacityError, TransientError
from gputrain.gcp.kinds import KINDS
from gputrain.gcp.refusals import kind_of, to_error
from gputrain.gcp.ways_out import NoWayOutError
from tests.unit.gcp import errors_page


def test_the_page_is_written_from_the_tables():
    assert errors_page.PAGE.read_text() == errors_page.page()


def test_every_kind_has_one_anchor():
    anchors = re.findall(r"^### (\w+)$", errors_page.PAGE.read_text(), re.MULTILINE)
    of_classes = {cls.kind for _, cls in inspect.getmembers(errors, inspect.isclass) if hasattr(cls, "kind")}
    kinds = {kind.name for kind in KINDS} | set(CAUSES) | of_classes | {"incomplete_list", NoWayOutError.kind}
    assert sorted(anchors) == sorted(kinds)


def test_every_group_of_the_table_is_on_the_page():
    assert {kind.name for _, kinds in errors_page.GROUPS for kind in kinds} == {kind.name for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_example_is_told_as_its_own_kind(kind):
    assert kind_of(kind.example) is kind
    error = to_error(kind.example, "create the job", project="my-project")
    assert (error.kind, type(error)) == (kind.name, kind.error)
    assert kind.example.message in error.why
    assert error.fix


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_tried_again_is_not_tried_elsewhere_and_what_lacks_room_is(kind):
    assert not (kind.error.retryable and kind.goes_elsewhere)
    assert kind.error.retryable == issubclass(kind.error, TransientError)
    if issubclass(kind.error, CapacityError):
        assert kind.goes_elsewhere
