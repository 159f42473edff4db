import io

import pytest
from rich.console import Console

from gputrain.display.table import Table

PRICES = Table(
    title="Prices",
    columns=("gpu", "$/h"),
    rows=[("L4", 0.7), ("H100 <80>", 11)],
    right=("$/h",),
    caption="2026",
)


def test_text_is_aligned_and_figures_are_flush_right():
    assert str(PRICES).splitlines() == [
        "Prices",
        "gpu        $/h",
        "---------  ---",
        "L4         0.7",
        "H100 <80>   11",
        "2026",
    ]


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_narrow_terminal_breaks_no_word_and_loses_nothing(width):
    wide = Table(
        columns=("place", "why", "$/h"),
        rows=[("us-central1-a", "the zone has no such machine", "1,214.63")],
        right=("$/h",),
    )
    console = Console(file=io.StringIO(), width=width)
    console.print(wide)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = sorted("".join(lines).replace("─", "").replace(" ", ""))
    assert shown == sorted("".join([*wide.columns, *wide.rows[0]]).replace(" ", ""))
    assert any("us-central1-a" in line for line in lines)
    assert any(line.endswith("1,214.63") for line in lines)


JOBS = Table(
    columns=("name", "state", "place"),
    rows=[(f"bert-base-uncased-{n}", "succeeded", "compute us-central1-a") for n in range(3)],
    caption="3 jobs",
)


def drawn(table, width, **how):
    console = Console(file=io.StringIO(), width=width)
    console.print(table, **how)
    return console.file.getvalue().splitlines()


def test_what_every_row_says_is_said_once_where_there_is_no_room():
    assert "compute us-central1-a" in drawn(JOBS, 80)[2]
    lines = drawn(JOBS, 40)
    assert "every row: place compute us-central1-a" in " ".join("\n".join(lines).split())
    assert lines[-1] == "3 jobs"
    assert [line.split()[0] for line in lines if line.startswith("bert")] == [row[0] for row in JOBS.rows]


def test_no_more_columns_are_dropped_than_needed_and_in_a_fixed_order():
    rows = [(f"zone-{n}", "vertex", "a3-highgpu-8g", "spot", "2h") for n in range(3)]
    plan = Table(columns=("place", "backend", "machine", "model", "for"), rows=rows)
    assert drawn(plan, 40)[0].split() == ["place", "backend", "machine", "model"]
    assert drawn(plan, 34)[0].split() == ["place", "machine", "model"]
    assert " ".join(drawn(plan, 34)[-1:]) == "every row: backend vertex, for 2h"


def test_long_names_in_a_list_are_cut_in_the_middle_before_a_grid_is_given_up():
    digests = Table(columns=("what", "why"), rows=[("image", f"sha256:{n}" + "0" * 60 + "end") for n in "12"])
    lines = drawn(digests, 40)
    assert lines[2].startswith("image  sha256:1")
    assert "…" in lines[2]
    assert lines[2].rstrip().endswith("0end")


def test_a_uri_that_is_wider_than_the_terminal_stays_in_one_piece():
    uri = "gputrain://compute/my-project/us-central1-a~my-bucket/bert-base-uncased-0f9a"
    for table in (
        Table(columns=("", " "), rows=[("state", "running"), ("uri", uri)]),
        Table(columns=("what", "why"), rows=[("the job", f"look at {uri} for the rest of it")]),
    ):
        assert any(uri in line for line in drawn(table, 40, overflow="ignore", crop=False))


def test_verdicts_are_coloured_in_a_terminal():
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    console.print(Table(columns=("quota",), rows=[("short",), ("of short notice",)]))
    assert "\x1b[31mshort" in console.file.getvalue()
    assert "\x1b[31mof" not in console.file.getvalue()


def test_what_a_notebook_shows_is_bounded_whatever_others_wrote():
    long = "x" * 20_000
    table = Table(title=long, columns=("point", long), rows=[(long, long)] * 3000, caption=long)
    shown = table._repr_mimebundle_()
    assert sum(map(len, shown.values())) < 400_000
    assert "and 2800 more rows" in shown["text/plain"]
    assert len(str(table)) > 3000 * 20_000  # who prints it gets all of it
    wide = Table(columns=[f"c{n}" for n in range(300)], rows=[["1"] * 300], right=["c1"])
    assert "and 260 more columns" in wide._repr_mimebundle_()["text/plain"]
