"""Places and prices are built from what the lists say, and from nothing that they do not say."""

from decimal import Decimal

from gputrain import catalog
from gputrain.catalog import load
from gputrain.catalog.refresh import bills, sum_of

STANDARD, SPOT, FLEX = load.FIGURES.values()


def parts(model=STANDARD, region="us-central1", **figures):
    named = {"gpu": "gpu A100-40GB", "core": "core A2",
             "ram": "ram A2", "ssd": "ssd",
             "gpu80": "gpu A100-80GB"}  # fmt: skip
    return {(named[name], model, region): Decimal(text) for name, text in figures.items()}


def price_of(machine_type, rates, model=STANDARD):
    (bill, *_) = bills(catalog.machine(machine_type))
    return sum_of(bill, rates, "us-central1", model)


def test_a_machine_with_a_part_that_has_no_price_has_none():
    assert price_of("a2-highgpu-1g", parts(gpu="2.9", core="0.03")) is None
    assert price_of("a2-ultragpu-1g", parts(gpu80="3.9", core="0.03", ram="0.004")) is None
    assert price_of("a2-highgpu-1g", parts(gpu="2.9", core="0.03", ram="0.004"), SPOT) is None
