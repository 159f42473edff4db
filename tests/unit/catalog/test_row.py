import copy
import pickle

import attrs
import pytest

from gputrain import catalog
from gputrain.catalog import Service
from tests.each import each


def test_a_row_is_frozen():
    gpu = catalog.find("H100")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        gpu.memory_gib = 81
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del gpu.memory_gib


def test_rows_compare_and_hash_by_their_fields():
    one = catalog.Source(key="x", what="y", dated="z")
    assert one == catalog.Source(key="x", what="y", dated="z")
    assert one != catalog.Source(key="x", what="y", dated="later")
    assert one != ("x", "y", "z")
    assert len({one, catalog.Source(key="x", what="y", dated="z")}) == 1


def test_rows_copy_and_pickle():
    for row in (
        catalog.find("H100"),
        catalog.shapes("RTX-PRO-6000")[0],
        catalog.price("g2-standard-4", "us-central1"),
    ):
        assert copy.deepcopy(row) == row
        assert pickle.loads(pickle.dumps(row)) == row


def test_a_shape_prints_its_rows_by_their_names():
    assert repr(catalog.shapes("H100", 2)[0]) == "Shape(gpu=H100, gpu_count=2, machine=a3-highgpu-2g)"


def test_rows_inside_a_row_are_spread_out_in_its_table():
    cells = dict(catalog.machine("a3-highgpu-2g").table.rows)
    assert cells["family: cpu platform"] == "Intel Sapphire Rapids"
    assert cells["terms: compute"] == "spot, flex-start"
    assert cells["family: cpu architecture"] == "x86_64"
    assert "note" not in cells


@each(
    "shown",
    [
        catalog.gpus(),
        catalog.machines(),
        catalog.shapes(),
        catalog.prices("a3-highgpu-8g"),
        catalog.find("H100"),
        catalog.machine("a3-highgpu-8g"),
        catalog.shapes("T4", 1)[0],
        catalog.quota("H100"),
        catalog.price("g2-standard-4", "us-central1"),
        catalog.not_sold("RTX 4090"),
    ],
)
def test_everything_shows_as_a_table_in_a_notebook_and_a_terminal(shown):
    from rich.console import Console

    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/html"].startswith("<table>")
    assert bundle["text/plain"].count("\n") >= 3
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(shown)
    first_cell = shown.table.rows[0][0]
    assert first_cell in console.export_text()


def test_an_empty_answer_shows_as_an_empty_table():
    assert "machine type" in str(catalog.shapes(count=3).table)


def test_tables_tell_what_matters():
    text = str(catalog.shapes("H100", 2))
    assert "a3-highgpu-2g" in text
    assert "spot, flex-start" in text


def test_words_print_as_themselves():
    assert str(catalog.ProvisioningModel.FLEX_START) == "flex-start"
    assert [str(service) for service in Service] == ["compute", "vertex"]
    assert [model.value for model in catalog.ProvisioningModel] == [
        "standard",
        "spot",
        "flex-start",
        "reservation-bound",
    ]
