"""docs/reference.md names everything there is, and nothing else."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import gputrain_emulator
from gputrain_emulator import Cloud, faults
from gputrain_emulator.compute.settings import Settings
from gputrain_emulator.failures import ROWS, VERTEX_ROWS
from gputrain_emulator.rates import DEFAULT_PER_MINUTE

PAGE = (Path(__file__).parents[1] / "docs" / "reference.md").read_text()


def test_it_names_every_argument_of_start() -> None:
    section = PAGE.split("## Start")[1].split("##")[0]
    for name in inspect.signature(gputrain_emulator.start).parameters:
        assert f"`{name}`" in section


def test_it_names_every_public_name_of_the_handle() -> None:
    section = PAGE.split("## The handle")[1].split("##")[0]
    named = set(re.findall(r"`(\w+)", section))
    public = {name for name in vars(Cloud) if not name.startswith("_")}
    assert public <= named


def test_it_names_every_kind_of_fault() -> None:
    section = PAGE.split("## Faults")[1].split("##")[0]
    kinds = {
        name
        for name, kind in vars(faults).items()
        if inspect.isclass(kind) and issubclass(kind, faults.Fault)
    }
    assert kinds - {"Fault"} <= set(re.findall(r"`(\w+)\(", section))


def test_its_tables_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"\| (C\d+[a-z]?) \| .* \| `(\w+)` \|", PAGE))
    assert rows == {row: failure.code for row, failure in ROWS.items()}
    vertex = {row: int(http) for row, http in re.findall(r"\| (V\d+[a-z]?) \| (\d+) \|", PAGE)}
    assert vertex == {row: failure.http for row, failure in VERTEX_ROWS.items()}
    pools = dict(re.findall(r"\| `(\w+\.\w+)` \| ([\d,]+) \|", PAGE))
    assert {pool: int(text.replace(",", "")) for pool, text in pools.items()} == DEFAULT_PER_MINUTE
    settings = dict(re.findall(r"\| `(\w+)` \| ([\w.]+) \|", PAGE.split("## Compute's settings")[1]))
    assert settings == {field.name: str(field.default) for field in dataclasses.fields(Settings)}
