"""The picture in the README is what a terminal shows."""

import html
import re
import runpy
from pathlib import Path

from gputrain.cli.commands import gputrain

DOCS = Path(__file__).parents[3] / "docs"


def words(picture):
    """The text of a picture, without what rich draws it with."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", html.unescape(picture.replace("&#160;", " ")))


def test_the_picture_of_a_plan_is_as_plans_are_now():
    script = runpy.run_path(str(DOCS / "plan_picture.py"))
    assert words(script["draw"]()) == words((DOCS / "plan.svg").read_text())
    assert "us-east4" in "".join(words((DOCS / "plan.svg").read_text()))


def test_its_command_is_one():
    script = runpy.run_path(str(DOCS / "plan_picture.py"))
    _, command, *words = script["COMMAND"].split()
    assert gputrain.commands[command].make_context(command, words).params["num_nodes"] == 2
