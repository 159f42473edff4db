"""Run every benchmark and print one table: the number, its target, and whether it is held.

Each module beside this one has ``measure()``, which yields `Measure` values; name modules to run only those:
``python benchmarks/run.py imports catalog``. Take the figures on a quiet machine.
"""

import importlib
import sys
from pathlib import Path

from measure import Measure
from rich.console import Console

from gputrain.tables import Table

HERE = Path(__file__).parent
MODULES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("run", "measure"))


def row(name: str, one: Measure) -> tuple[str, ...]:
    held = "held" if one.is_held else "NOT HELD"
    return name, one.what, f"{one.value:.3g} {one.unit}", f"<= {one.target:g} {one.unit}", held, one.note


def main(names: list[str]) -> None:
    console = Console()
    rows = []
    for name in names or MODULES:
        with console.status(f"measuring {name}"):
            rows += [row(name, one) for one in importlib.import_module(name).measure()]
    columns = ("benchmark", "what", "measured", "target", "", "note")
    console.print(Table(title="Numbers we hold ourselves to", columns=columns, rows=rows, right=columns[2:4]))


if __name__ == "__main__":
    main(sys.argv[1:])
