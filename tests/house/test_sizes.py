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


TABLE = {
    "open_issues": ["A feature"],
    "lines": {"product": 1000},
    "debt": [
        {"figure": "lines.product", "by": 100, "issue": "A feature", "until": datetime.date(2030, 1, 2)}
    ],
}
BEFORE, AFTER = datetime.date(2030, 1, 1), datetime.date(2030, 1, 3)


@pytest.mark.parametrize(
    ("lines", "today", "issues", "words"),
    [
        (1100, BEFORE, ["A feature"], []),
        (1101, BEFORE, ["A feature"], ["lines.product is 1,101, above 1,000 + 100 of debt"]),
        (900, BEFORE, ["A feature"], ["lines.product is 900: write that instead of 1,000"]),
        (1000, AFTER, ["A feature"], ["the debt of 'A feature' on lines.product ended on 2030-01-02"]),
        (1000, BEFORE, [], ["the debt on lines.product outlives 'A feature', which is not open"]),
    ],
)
def test_the_ratchet_holds(lines, today, issues, words):
    table = {**TABLE, "open_issues": issues}
    found = sizes.faults({"lines": {"product": lines}}, today, table)
    assert len(found) == len(words)
    assert all(fault.startswith(word) for fault, word in zip(found, words))
