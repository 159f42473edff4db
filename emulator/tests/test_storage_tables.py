"""The tables of storage fields and parameters are those of the document that Google's client ships."""

from __future__ import annotations

from importlib.resources import files

import pytest

from emulator.scripts import storage_tables

TABLES = storage_tables.tables()


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_is_what_the_document_says(name: str) -> None:
    held = (files("gputrain_emulator") / "data" / name).read_text(encoding="utf-8")
    assert held == TABLES[name]


def test_what_is_told_to_be_output_only_is_in_the_document() -> None:
    rows = TABLES["storage_fields.csv"].splitlines()[1:]
    known = {".".join(row.split(",")[:2]) for row in rows}
    assert known >= storage_tables.OUTPUT_ONLY
