"""The site leaves nothing out: every page is in its contents, every public name in its reference."""

import re
from pathlib import Path

import pytest

import gputrain

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))
INDEX = (DOCS / "index.md").read_text()


@pytest.mark.parametrize("page", [one for one in PAGES if one != "index"])
def test_every_page_is_in_the_contents(page):
    folder = page.rpartition("/")[0]
    assert re.search(rf"^({re.escape(page)}|{re.escape(folder)}/\*)$", INDEX, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(set(gputrain.__all__) - {"__version__"}))
def test_every_public_name_is_in_the_reference(name):
    assert re.search(rf":: gputrain\.{name}$", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE)
