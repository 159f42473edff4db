"""The figures of sizes.toml, and what holds against them."""

from pathlib import Path

from tests.house.source import ROOT

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

FILE = Path(__file__).with_name("sizes.toml")
FOLDERS = {
    "product": "gputrain",
    "tests": "tests",
    "emulator": "emulator/gputrain_emulator",
    "emulator_tests": "emulator/tests",
}
SLACK, SMALL = 0.03, 10
"""How far below its limit a figure may be before the limit has to follow it: by a share, and by a number."""


def counted():
    """Lines of Python by folder, and the product's files."""
    files = {name: sorted((ROOT / folder).rglob("*.py")) for name, folder in FOLDERS.items()}
    lines = {name: sum(path.read_bytes().count(b"\n") for path in found) for name, found in files.items()}
    return {"lines": lines, "files": {"product": len(files["product"])}}


def faults(found, today):
    """What the figures found break, a sentence each. They may be a part of the table."""
    table = tomllib.loads(FILE.read_text())
    wrong = []
    for figure, value in _flat(found).items():
        limit, debts = _flat(table)[figure], [one for one in table.get("debt", ()) if one["figure"] == figure]
        owed = sum(one["by"] for one in debts)
        if value > limit + owed:
            wrong.append(
                f"{figure} is {value:,}, above {limit:,} + {owed:,} of debt: delete first. If a named issue "
                f"needs it for a time, write a dated debt into {FILE.name}"
            )
        elif limit - value > max(limit * SLACK, SMALL) and figure != "cases.quick":  # a part of them may run
            wrong.append(f"{figure} is {value:,}: write that instead of {limit:,} into {FILE.name}")
        for one in debts:
            if today > one["until"]:
                wrong.append(f"the debt of {one['issue']!r} on {figure} ended on {one['until']}")
            if one["issue"] not in table["open_issues"]:
                wrong.append(f"the debt on {figure} outlives {one['issue']!r}, which is not open")
    return wrong


def rows(found):
    """(figure, value, limit) for the table at the end of `make test`."""
    limits = _flat(tomllib.loads(FILE.read_text()))
    return [(figure, value, limits[figure]) for figure, value in _flat(found).items()]


def _flat(table, before=""):
    """{"walk": {"local": {"files": 1}}} -> {"walk.local.files": 1}"""
    flat = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{before}{name}."))
        elif isinstance(value, int):
            flat[f"{before}{name}"] = value
    return flat
