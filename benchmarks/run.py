"""Run every benchmark and print one table: the number, its spread, its target, and whether it is held.

Each module beside this one has ``measure()``, which yields `Measure` values, and runs in a process of its
own; name modules to run only those: ``python benchmarks/run.py imports catalog``. Those of GPUs and of VMs
that boot, ``gpu`` and ``machine``, run only so. What is compared takes turns, so a busy machine widens the
spread; where the spread holds the target, a number is ``open``.

``--notes`` tells what is behind each number; ``--keep 0.2.0`` writes the figures down as those of a release,
which later runs show beside their own. Ctrl-C shows what there is so far.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import attrs
from measure import Measure, slowed
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
KEPT = HERE / "last.json"
APART = ("gpu", "machine")
"""What runs where it is named only: it takes GPUs, or minutes and root."""

MODULES = sorted(
    path.stem for path in HERE.glob("*.py") if path.stem not in ("run", "measure", "sleepers", *APART)
)
COLOURS = {"held": "green", "open": "yellow", "NOT HELD": "red", "": ""}


def measured(name: str) -> Iterator[Measure]:
    """The figures of one module, from a process of its own. RuntimeError where it came to nothing."""
    command = [sys.executable, __file__, "--one", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out, said = process.communicate()
    for line in out.splitlines():
        if line.startswith('{"what"'):
            yield Measure(**json.loads(line))
    if process.returncode:
        raise RuntimeError(said.strip().rpartition("\n")[2] or f"exit code {process.returncode}")


def one(name: str) -> None:
    """Measure in this process, and tell each figure as it comes."""
    before = slowed()
    for figure in importlib.import_module(name).measure():
        after = slowed()
        print(json.dumps(attrs.asdict(figure.widened(max(before, after)))), flush=True)
        before = after


def cells(figure: Measure, last: Any) -> tuple[str, ...]:
    """One row, after its name."""
    spread = "" if figure.low is None else f"{_short(figure.low)}-{_short(figure.high)}"
    before = "" if last is None else _short(last)
    today = f"{_short(figure.value)} {figure.unit}".strip()
    word = figure.verdict
    return today, spread, _short(figure.target), before, f"[{COLOURS[word]}]{word}[/]"


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 0.1 else f"{value:.1g}"


def table(found: Mapping[str, Sequence[Measure]], last: Mapping[str, Any]) -> Table:
    """All figures, 80 columns wide."""
    shown = Table(title="Numbers we hold ourselves to", box=None, pad_edge=False, width=80)
    shown.add_column("what", min_width=30)
    for column in ("today", "spread", "at most", last.get("release", "last")):
        shown.add_column(column, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True, min_width=8)
    for name, figures in found.items():
        shown.add_row(f"[bold]{name}[/]")
        for figure in figures:
            before = last.get("figures", {}).get(f"{name}: {figure.what}")
            shown.add_row(f" {figure.what}".replace("[", r"\["), *cells(figure, before))
    return shown


def main() -> int:
    """Measure and show; 1 where a benchmark came to nothing, whatever the numbers are."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("modules", nargs="*", default=MODULES)
    asked.add_argument("--notes", action="store_true")
    asked.add_argument("--keep", metavar="RELEASE")
    asked.add_argument("--one", metavar="MODULE", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.one:
        one(given.one)
        return 0
    console, failed = Console(highlight=False, soft_wrap=False), {}
    found: dict[str, list[Measure]] = {}
    took: dict[str, float] = {}
    for name in given.modules or MODULES:
        began = time.monotonic()
        found[name] = []
        try:
            found[name].extend(measured(name))
        except RuntimeError as error:
            failed[name] = str(error)
        except KeyboardInterrupt:  # what there is so far is shown
            failed[name] = "interrupted"
            break
        took[name] = time.monotonic() - began
        sys.stderr.write(f"{name}: {took[name]:.0f} s\n")
    last = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    console.print(table(found, last))
    console.print(_told(found, took, is_whole=given.notes))
    for name, why in failed.items():
        console.print(f"{name} came to nothing: {why}", style="red", markup=False)
    if given.keep:
        figures = {f"{name}: {figure.what}": figure.value for name, rows in found.items() for figure in rows}
        kept = {"release": given.keep, "on": f"{date.today()}", "figures": figures}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return 1 if failed else 0


def _told(found: Mapping[str, Sequence[Measure]], took: Mapping[str, float], *, is_whole: bool) -> str:
    """Below the table: notes, and how long it took."""
    lines = [
        f"{figure.what}: {figure.note}"
        for figures in found.values()
        for figure in figures
        if figure.note and (is_whole or figure.verdict != "held")
    ]
    slowest = ", ".join(f"{name} {took[name]:.0f} s" for name in sorted(took, key=took.get, reverse=True)[:5])  # type: ignore[arg-type]
    return "\n".join(["", *lines, f"{sum(took.values()) / 60:.1f} minutes: {slowest}, ..."]).replace(
        "[", r"\["
    )


if __name__ == "__main__":
    sys.exit(main())
