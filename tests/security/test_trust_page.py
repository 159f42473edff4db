"""Every boundary on the page of trust is held by a test that is there."""

import re
from pathlib import Path

from tests.each import each

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design" / "trust.md").read_text()
ROWS = [row for row in PAGE.splitlines() if row.startswith("| ") and not row.startswith("| what |")]


@each("row", ROWS)
def test_a_boundary_names_tests_that_are_there(row):
    named = re.findall(r"`((?:emulator/)?tests/[\w/.]+)`", row.split("|")[-2])
    assert named
    for path in named:
        assert re.search(r"^def test_", (ROOT / path).read_text(), re.MULTILINE), path


def test_every_file_of_security_stands_on_the_page():
    here = {f"tests/security/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert {path for path in here if path not in PAGE} <= {"tests/security/test_trust_page.py"}
