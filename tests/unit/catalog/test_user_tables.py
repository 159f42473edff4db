"""A user's own tables are used instead of the built-in ones, unless a row cannot be parsed."""

import os
import subprocess
import sys

import pytest

from gputrain.catalog import load
from tests.each import each

DAY = "2026-11-21"
PRICES = f"""what,region,standard,spot,flex_start,source,dated
g2-standard-4,us-central1,0.8,0.4,0.5,Billing,{DAY}
"""
PLACES = f"""list,of,places,source,dated
machine-regions,g2-standard-4,us-central1 us-east1,Compute,{DAY}
machine-zones,g2-standard-4,us-central1-a us-east1-b,Compute,{DAY}
machine-zones,g2-standard-8,,Compute,{DAY}
"""
ASK = """
import logging
logging.basicConfig()
from gputrain import catalog
price = catalog.price("g2-standard-4", "us-central1")
print(price, price.source)
print(catalog.price("g2-standard-4", "us-central1", "flex-start"))
shape = catalog.shapes(machine_type="g2-standard-4")[0]
print(*catalog.zones(shape), catalog.listed_in(shape).dated)
print(len(catalog.regions(catalog.shapes("H100", 8)[0], "vertex")) > 5)
"""


def asked(folder):
    """What a new process answers, and what it says besides."""
    env = {**os.environ, "GPUTRAIN_CATALOG": str(folder)}
    done = subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


def test_the_users_tables_win_with_their_source_and_date_and_what_they_lack_stays(tmp_path):
    (tmp_path / "prices.csv").write_text(PRICES)
    (tmp_path / "places.csv").write_text(PLACES)
    answers, said = asked(tmp_path)
    assert answers == [
        f"$0.80/h ({DAY}) Billing", f"$0.50/h ({DAY})", f"us-central1-a us-east1-b {DAY}", "True"
    ]  # fmt: skip
    assert said == ""


def test_a_file_with_a_row_that_cannot_be_parsed_is_not_used_and_the_other_file_is(tmp_path):
    (tmp_path / "prices.csv").write_text(PRICES + "half a row,us-cen")
    (tmp_path / "places.csv").write_text(PLACES)
    answers, said = asked(tmp_path)
    assert answers[0].startswith("$0.71/h (2026-07-30)")
    assert answers[2].startswith("us-central1-a us-east1-b")
    assert "prices.csv is not used" in said
    assert "line 3" in said
    assert "python -m gputrain.catalog.refresh" in said


@each(
    ("name", "before", "after"),
    [
        ("prices", PRICES, "hello"),
        ("prices", ",0.8,", ","),
        ("prices", ",0.8,", ",0.8,0.8,"),
        ("prices", ",0.8,", ",-1,"),
        ("prices", ",0.4,", ",cheap,"),
        ("prices", "Billing", ""),
        ("prices", DAY, ""),
        ("prices", "g2-standard-4", ""),
        ("places", "machine-zones", "vertex-regions"),
        ("places", "g2-standard-8", ""),
    ],
)
def test_a_row_that_no_refresh_writes_cannot_be_parsed(name, before, after):
    text = {"prices": PRICES, "places": PLACES}[name]
    assert len(load.parsed(name, text.splitlines())) in (1, 3)
    assert before in text
    with pytest.raises(ValueError, match=r"line|columns"):
        load.parsed(name, text.replace(before, after, 1).splitlines())


@pytest.mark.parametrize(
    ("env", "ends"),
    [
        ({"GPUTRAIN_CATALOG": "/a/b", "GPUTRAIN_HOME": "/h", "XDG_DATA_HOME": "/x"}, "/a/b"),
        ({"GPUTRAIN_HOME": "/h", "XDG_DATA_HOME": "/x"}, "/h/catalog"),
        ({"XDG_DATA_HOME": "/x"}, "/x/gputrain/catalog"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/u"}, "/home/u/.local/share/gputrain/catalog"),
        ({"HOME": "/home/u"}, "/home/u/.local/share/gputrain/catalog"),
    ],
)
def test_the_files_lie_where_users_keep_their_data(env, ends, monkeypatch):
    for name in ("GPUTRAIN_CATALOG", "GPUTRAIN_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert load.folder() == ends
