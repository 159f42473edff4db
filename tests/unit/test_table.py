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


def test_a_list_without_room_leaves_its_last_columns_out_and_names_them():
    rows = [(f"gpu-{n}", f"nvidia-name-{n}", f"NVIDIA_NAME_{n}") for n in range(3)]
    lines = drawn(Table(columns=("kind", "Compute", "Vertex"), rows=rows), 24)
    assert lines[0].split() == ["kind", "Compute"]
    assert lines[-1] == "left out here: Vertex"


def test_lines_of_an_item_are_indented_as_its_first_and_a_command_is_never_broken():
    command = "  gcloud compute networks create gpu-net-1"
    table = Table(columns=("",), rows=[("- what the script writes is lost",)], caption=f"[1] so\n{command}")
    lines = drawn(table, 20, overflow="ignore", crop=False)
    assert lines == ["- what the script", "  writes is lost", "[1] so", command]


def test_a_uri_that_is_wider_than_the_terminal_stays_in_one_piece():
    uri = "gputrain://compute/my-project/us-central1-a~my-bucket/bert-base-uncased-0f9a"
    for table in (
        Table(columns=("", " "), rows=[("state", "running"), ("uri", uri)]),
        Table(columns=("what", "why"), rows=[("the job", f"look at {uri} for the rest of it")]),
    ):
        assert any(uri in line for line in drawn(table, 40, overflow="ignore", crop=False))


def test_what_a_notebook_shows_is_bounded_whatever_others_wrote():
    long = "x" * 20_000
    table = Table(title=long, columns=("point", long), rows=[(long, long)] * 3000, caption=long)
    shown = table._repr_mimebundle_()
    assert sum(map(len, shown.values())) < 400_000
    assert "and 2800 more rows" in shown["text/plain"]
    assert len(str(table)) > 3000 * 20_000  # who prints it gets all of it
    wide = Table(columns=[f"c{n}" for n in range(300)], rows=[["1"] * 300], right=["c1"])
    assert "and 260 more columns" in wide._repr_mimebundle_()["text/plain"]
