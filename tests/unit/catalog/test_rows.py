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
