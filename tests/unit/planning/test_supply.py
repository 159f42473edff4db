"""What a backend has on offer is read by rows: whatever is none is refused by its name, as it is made."""

from fractions import Fraction

import pytest

from gputrain import SpecError
from gputrain.catalog import ProvisioningModel
from gputrain.planning import Limit, Offer, Supply, candidates
from gputrain.spec import TrainingSpec
from tests.each import each


def offer(**changed):
    usual = {"gpu": "MI300X", "gpu_count": 8, "machine_type": "node", "provisioning_models": ()}
    return Offer(**{**usual, "places": ("a/b",), **changed})


@each(
    ("field", "value"),
    [
        ("gpu", 3), ("gpu", ""), ("gpu_count", "8"), ("gpu_count", 0), ("gpu_count", -1), ("gpu_count", True),
        ("gpu_count", None), ("machine_type", None), ("provisioning_models", ("spot",)),
        ("provisioning_models", None), ("places", "eu"), ("places", (3,)), ("places", None),
        ("max_nodes", "2"), ("price_of", 3.5), ("region_of", None), ("network_of", 1), ("refuses", "no"),
    ],
)  # fmt: skip
def test_an_offer_refuses_by_name_what_it_cannot_be(field, value):
    with pytest.raises(SpecError) as caught:
        offer(**{field: value})
    assert [fault.field for fault in caught.value.faults] == [field]
    assert all(fault.allowed and fault.fix for fault in caught.value.faults)


def test_every_fault_of_an_offer_is_told_at_once():
    with pytest.raises(SpecError) as caught:
        offer(gpu=3, places="eu", max_nodes=-1)
    assert [fault.field for fault in caught.value.faults] == ["gpu", "places", "max_nodes"]


@each(
    "fields",
    [
        {"gpu": "mi300x"}, {"gpu_count": Fraction(1, 2)}, {"gpu": None, "gpu_count": 0}, {"places": ()},
        {"provisioning_models": (ProvisioningModel.SPOT,)}, {"max_nodes": 0},
    ],
)  # fmt: skip
def test_an_offer_is_made_of_what_can_be(fields):
    assert offer(**fields).machine_type == "node"


@each(
    ("field", "value"),
    [
        ("backend", ""), ("backend", None), ("offers", None), ("offers", ("x",)), ("limits", (offer(),)),
        ("find_gpu", None), ("regions", "eu"),
    ],
)  # fmt: skip
def test_a_supply_refuses_by_name_what_it_cannot_be(field, value):
    with pytest.raises(SpecError) as caught:
        Supply(**{"backend": "rack", "offers": (offer(),), field: value})
    assert [fault.field for fault in caught.value.faults] == [field]


def test_a_supply_is_made_of_offers_and_limits():
    limit = Limit(field="image", asks=lambda spec: bool(spec.image), why="no containers", fix="leave it out")
    assert Supply(backend="rack", offers=(offer(),), limits=(limit,)).limits == (limit,)


@each(
    ("function", "told"),
    [
        ({"price_of": lambda _place, _model: 3.5}, "price_of(...)"),
        ({"refuses": lambda _spec, _model: "no"}, "refuses(...)"),
        ({"refuses": lambda _spec, _model: ("no", "a", "b")}, "refuses(...)"),
        ({"refuses": lambda _spec, _model: (3, "a")}, "refuses(...)"),
        ({"network_of": lambda _spec: "fast"}, "network_of(...)"),
        ({"region_of": lambda _place: None}, "region"),
    ],
)
def test_what_a_function_of_an_offer_gives_is_refused_with_the_backend_where_it_cannot_be(function, told):
    spec = TrainingSpec(script="train.py", gpu="MI300X:8")
    with pytest.raises(SpecError, match="'rack'") as caught:
        candidates(spec, [Supply(backend="rack", offers=(offer(**function),))])
    assert [fault.field for fault in caught.value.faults] == [told]
