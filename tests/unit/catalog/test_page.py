"""The reference page says what the catalog says."""

import importlib.util
from pathlib import Path

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def test_the_tables_on_the_page_are_the_catalogs_own():
    spec = importlib.util.spec_from_file_location("catalog_tables", REFERENCE / "catalog_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    page = (REFERENCE / "catalog.md").read_text()
    assert page == tables.written(page), "run python docs/reference/catalog_tables.py"
