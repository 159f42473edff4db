"""The page of errors says what the tables say, and the tables say it all."""

import importlib
import pkgutil
import re

import gputrain
from gputrain.causes import CAUSES
from gputrain.errors import CapacityError, GputrainError, TransientError
from gputrain.google.errors import RULES, classify, to_error
from tests.each import each
from tests.unit.google import errors_page
from tests.unit.google.refusals_told import TOLD


def test_the_page_is_written_from_the_tables():
    assert errors_page.PAGE.read_text() == errors_page.page()


def test_every_kind_has_one_anchor():
    anchors = re.findall(r"^### (\w+)$", errors_page.PAGE.read_text(), re.MULTILINE)
    for module in pkgutil.walk_packages(gputrain.__path__, "gputrain."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    of_classes = {cls.kind for cls in errors_below(GputrainError) if cls.__module__.startswith("gputrain.")}
    kinds = {rule.name for rule in RULES} | set(CAUSES) | of_classes
    assert sorted(anchors) == sorted(kinds)


def errors_below(error):
    """An error's class and all that inherit it."""
    yield error
    for below in error.__subclasses__():
        yield from errors_below(below)


@each("rule", RULES)
def test_each_example_is_classified_by_its_own_rule(rule):
    example = TOLD[rule.name].example
    assert classify(example) is rule
    error = to_error(example, "create the job", project="my-project")
    assert (error.kind, type(error)) == (rule.name, rule.error)
    assert example.message in error.why
    assert error.fix


@each("rule", RULES)
def test_what_is_tried_again_is_not_tried_elsewhere_and_what_lacks_room_is(rule):
    assert not (rule.error.retryable and rule.try_elsewhere)
    assert rule.error.retryable == issubclass(rule.error, TransientError)
    if issubclass(rule.error, CapacityError):
        assert rule.try_elsewhere
