"""The page of errors says what the tables say, and the tables say it all."""

import importlib
import pkgutil
import re

import gputrain
from gputrain.causes import CAUSES
from gputrain.errors import CapacityError, GputrainError, TransientError
from gputrain.gcp.kinds import KINDS
from gputrain.gcp.refusals import kind_of, to_error
from tests.each import each
from tests.unit.gcp import errors_page
from tests.unit.gcp.refusals_told import TOLD


def test_the_page_is_written_from_the_tables():
    assert errors_page.PAGE.read_text() == errors_page.page()


def test_every_kind_has_one_anchor():
    anchors = re.findall(r"^### (\w+)$", errors_page.PAGE.read_text(), re.MULTILINE)
    for module in pkgutil.walk_packages(gputrain.__path__, "gputrain."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    of_classes = {cls.kind for cls in errors_below(GputrainError) if cls.__module__.startswith("gputrain.")}
    kinds = {kind.name for kind in KINDS} | set(CAUSES) | of_classes
    assert sorted(anchors) == sorted(kinds)


def errors_below(error):
    """An error's class and all that inherit it."""
    yield error
    for below in error.__subclasses__():
        yield from errors_below(below)


def test_every_group_of_the_table_is_on_the_page():
    assert {kind.name for _, kinds in errors_page.GROUPS for kind in kinds} == {kind.name for kind in KINDS}


@each("kind", KINDS)
def test_each_example_is_told_as_its_own_kind(kind):
    example = TOLD[kind.name].example
    assert kind_of(example) is kind
    error = to_error(example, "create the job", project="my-project")
    assert (error.kind, type(error)) == (kind.name, kind.error)
    assert example.message in error.why
    assert error.fix


@each("kind", KINDS)
def test_what_is_tried_again_is_not_tried_elsewhere_and_what_lacks_room_is(kind):
    assert not (kind.error.retryable and kind.goes_elsewhere)
    assert kind.error.retryable == issubclass(kind.error, TransientError)
    if issubclass(kind.error, CapacityError):
        assert kind.goes_elsewhere
