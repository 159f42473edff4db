"""The page of promises names tests that exist, and every feature that users can name stands on it."""

import re

import attrs

import gputrain
from gputrain import TrainingSpec
from gputrain.cli.commands import gputrain as program
from tests.house.source import ROOT

PAGE = (ROOT / "docs" / "design" / "promises.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.endswith("` |")]


def test_every_row_names_a_test_that_exists():
    assert ROWS
    missing = []
    for row in ROWS:
        path, _, name = row[-1].strip("`").partition("::")
        file = ROOT / path
        if not file.exists() or not re.search(rf"^(?:async )?def {name}\(", file.read_text(), re.MULTILINE):
            missing.append(row[-1])
    assert missing == []


def test_every_name_command_and_field_stands_on_the_page():
    quoted = " ".join(re.findall(r"`([^`]+)`", "\n".join(row[0] for row in ROWS)))
    words = set(re.findall(r"[\w-]+", quoted))
    names = {*gputrain.__all__, *program.commands, *(field.name for field in attrs.fields(TrainingSpec))}
    assert names - words == set()
