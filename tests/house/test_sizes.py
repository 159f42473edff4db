"""How large everything is, and how much one submit walks through: figures that only fall (see sizes.toml)."""

import datetime
import json

import pytest

from tests.house import sizes, words
from tests.house.walk import CLOUDS, walked


def test_no_figure_rises_without_a_debt_and_none_is_kept_too_high(request, record_property):
    found = {**sizes.counted(), "cases": {"quick": len(request.session.items)}}
    record_property("house", json.dumps(sizes.rows(found)))
    wrong = sizes.faults(found, datetime.date.today())
    assert not wrong, "\n".join(wrong)


def test_pages_are_short_and_plain(record_property):
    old = words.old_words()
    found = {"words": {"pages": words.number_of_words(), "old": len(old)}}
    record_property("house", json.dumps(sizes.rows(found)))
    wrong = sizes.faults(found, datetime.date.today())
    assert not wrong, "\n".join([*wrong, *(f"{place}: {word}" for place, word in old)])


@pytest.mark.parametrize("where", ["local", *CLOUDS])
def test_a_submit_walks_no_further_than_before(where, code, record_property):
    found = {"walk": {where: walked(where, code)}}
    record_property("house", json.dumps(sizes.rows(found)))
    wrong = sizes.faults(found, datetime.date.today())
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def code(tmp_path):
    """The path of a script in a folder of its own."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    return str(tmp_path / "train.py")
