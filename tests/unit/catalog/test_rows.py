"""GPUs and machine types: what their rows say, and how rows behave as values."""

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Stage
from tests.each import each

STANDARD, SPOT, FLEX, RESERVED = ProvisioningModel


@each(
    ("gpu", "sm", "bf16_tflops", "stage", "ends"),
    [
        ("H100", "sm_90", 989, Stage.ACTIVE, ""),  # the dense figure, not Google's sparse one
        ("B200", "sm_100", 2250, Stage.ACTIVE, ""),
        ("RTX-PRO-6000", "sm_120", 467.8, Stage.ACTIVE, ""),
        ("V100", "sm_70", None, Stage.ACTIVE, ""),
        ("T4", "sm_75", None, Stage.DEPRECATED, "2027-08-01"),
        ("P4", "sm_61", None, Stage.DEPRECATED, "2027-08-01"),
        ("P100", "sm_60", None, Stage.GONE, "2026-09-15"),
        ("K80", "sm_37", None, Stage.GONE, "2024"),
    ],
)
def test_a_gpu_says_what_it_can_do_and_until_when_it_is_sold(gpu, sm, bf16_tflops, stage, ends):
    found = catalog.find(gpu)
    assert (found.sm, found.bf16_tflops, found.lifecycle.stage, found.lifecycle.ends) == (
        sm, bf16_tflops, stage, ends
    )  # fmt: skip
    assert bool(found.instead) is bool(ends)
    assert all(catalog.find(kind).lifecycle.stage is not Stage.GONE for kind in found.instead)


@each(
    "shown",
    [
        catalog.gpus(), catalog.machines(), catalog.shapes(), catalog.prices("a3-highgpu-8g"),
        catalog.find("H100"), catalog.machine("a3-highgpu-8g"), catalog.shapes("T4", 1)[0],
        catalog.quota("H100"), catalog.price("g2-standard-4", "us-central1"), catalog.not_sold("RTX 4090"),
    ],
)  # fmt: skip
def test_everything_shows_as_a_table_in_a_notebook_and_a_terminal(shown):
    from rich.console import Console

    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/html"].startswith("<table>")
    assert bundle["text/plain"].count("\n") >= 3
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(shown)
    assert shown.table.rows[0][0] in console.export_text()
