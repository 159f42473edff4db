"""Laws of the refreshed tables: whatever Google's lists hold, what is written is sound."""

import copy
from decimal import Decimal

import pytest
from hypothesis import strategies as st

import gputrain_emulator
from gputrain import catalog
from gputrain.catalog import load
from gputrain.gcp.listing import listing_of
from gputrain.refresh import ChangeKind, prices
from gputrain.refresh.road import built
from gputrain.refresh.skus import OddSkuError, rate
from gputrain.refresh.stock import stock
from gputrain_emulator import facts
from gputrain_emulator.cloudbilling import PriceList
from tests.laws.drawn import drawn

DAY = "2026-11-21"
PARTS = sorted(facts.part_prices())
MACHINES = [machine for machine in catalog.machines() if machine.gpu]
KINDS = {machine.gpu: catalog.find(machine.gpu).accelerator_type for machine in MACHINES}
ZONES = sorted({zone for machine in MACHINES for zone in catalog.zones(catalog.shapes(machine_type=machine.machine_type)[0])})  # fmt: skip  # noqa: E501

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def documents(places):
    """Machine types as the API lists them."""
    return tuple(
        {
            "name": machine.machine_type, "zone": zone, "guestCpus": machine.vcpus,
            "memoryMb": int(machine.memory_gib * 1024),
            "accelerators": [
                {"guestAcceleratorType": KINDS[machine.gpu],
                 "guestAcceleratorCount": max(1, int(machine.gpu_count))}
            ],
        }
        for machine, zone in places
    )  # fmt: skip


@pytest.fixture(scope="module")
def listed():
    """The emulated price list; nothing is asked over the wire."""
    with gputrain_emulator.start() as cloud:
        yield cloud.world.part(PriceList)


EVERYWHERE = stock(
    listing_of(documents((m, zone) for m in MACHINES for zone in ZONES)),
    listing_of(tuple({"name": "nvidia-tesla-t4", "zone": zone} for zone in ZONES)),
)
moves = st.lists(
    st.tuples(
        st.sampled_from(PARTS),
        st.sampled_from(("STANDARD", "SPOT", "FLEX_START")),
        st.one_of(st.none(), st.decimals("0.000000001", "50000", places=9)),
    ),
    max_size=40,
)


@drawn(6, 60, moves=moves)
def test_no_spot_price_is_above_its_standard_price_and_each_refused_one_is_told(listed, moves):
    listed.changed = {(*part, model): usd for part, model, usd in moves}
    book = prices.book(listed.skus())
    file, changes = built(None, EVERYWHERE, book, day=DAY)
    assert load.parsed(load.written(file)) == file
    for what, region, standard, spot, _, _ in file.prices:
        assert not (standard and spot) or Decimal(spot) <= Decimal(standard), (what, region)
    refused = {(one.of, one.region) for one in changes if one.kind is ChangeKind.PRICE_REFUSED}
    found = prices.refreshed(book, EVERY_PLACE)
    standard, spot = prices.MODELS[:2]
    assert refused == {
        key
        for key, usd in found.items()
        if (standard in usd and spot in usd and usd[spot] > usd[standard])
        or max(usd.values()) >= load.MOST_USD_H
    }


EVERY_PLACE = prices.Places(
    machine_zones={},
    machine_regions={m.machine_type: frozenset(map(catalog.region_of, ZONES)) for m in MACHINES},
    gpu_zones={},
    gpu_regions={"T4": frozenset(map(catalog.region_of, ZONES))},
)

some_places = st.lists(st.tuples(st.sampled_from(MACHINES), st.sampled_from(ZONES)), max_size=30)


@drawn(10, 100, first=some_places, then=some_places, silent=st.lists(st.sampled_from(ZONES), max_size=5))
def test_after_any_two_refreshes_a_machine_is_just_where_it_was_seen_last(first, then, silent):
    empty = prices.PriceBook(rates={})
    own, _ = built(None, stock(listing_of(documents(first)), listing_of(())), empty, day=DAY)
    seen = stock(listing_of(documents(then), silent), listing_of(()))
    now, _ = built(own, seen, empty, day=DAY)
    zones = {row[1]: set(row[3].split()) for row in now.places if row[0] == "machine-zones"}
    for machine in MACHINES:
        before = {zone for one, zone in first if one is machine}
        after = {zone for one, zone in then if one is machine}
        assert zones[machine.machine_type] == after | (before & set(silent)), machine.machine_type
    again, changes = built(now, seen, empty, day=DAY)
    assert again == now
    assert changes == ()


def paths(value, at=()):
    """Where every value of a document lies."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*at, key))


def changed(document, at, value):
    made = copy.deepcopy(document)
    place = made
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = value
    return made


SKU = {
    "description": "Nvidia L4 GPU running in Iowa",
    "category": {"usageType": "OnDemand"},
    "serviceRegions": ["us-central1"],
    "pricingInfo": [
        {
            "pricingExpression": {
                "usageUnit": "h",
                "tieredRates": [
                    {
                        "startUsageAmount": 0,
                        "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": 560040000},
                    }
                ],
            }
        }
    ],
}


@drawn(100, 1000, at=st.sampled_from([at for at in paths(SKU) if at]), value=json_values)
def test_a_sku_with_anything_in_any_place_is_read_or_left_and_never_breaks_the_reading(at, value):
    try:
        found = rate(changed(SKU, at, value))
    except OddSkuError:
        return
    if found is not None:
        assert found.usd_h > 0
        assert all(isinstance(region, str) for region in found.regions)


(ONE,) = documents([(catalog.machine("g2-standard-4"), "us-central1-a")])


@drawn(40, 500, at=st.sampled_from([at for at in paths(ONE) if at]), value=json_values)
def test_a_machine_type_with_anything_in_any_place_leaves_a_sound_file(at, value):
    seen = stock(listing_of((changed(ONE, at, value),)), listing_of(()))
    file, _ = built(None, seen, prices.PriceBook(rates={}), day=DAY)
    load.parsed(load.written(file))


GOOD = load.written(
    load.UserFile(
        read_on=DAY, sources=(), places=load.built_in("places")[:9], prices=load.built_in("prices")[:9]
    )
).encode()


@drawn(50, 500, at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
def test_a_file_with_one_byte_changed_is_never_taken_for_another_catalog(tmp_path_factory, at, byte):
    path = tmp_path_factory.getbasetemp() / "flipped.tsv"
    path.write_bytes(GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])
    try:
        found = load.read(str(path))
    except ValueError:
        return
    assert found.prices == load.built_in("prices")[:9]
    assert found.places == load.built_in("places")[:9]


@drawn(
    40,
    500,
    data=st.binary(max_size=200),
    head=st.sampled_from([b"", b"gputrain-catalog\t1\t2026-11-21\t00000000\n"]),
)
def test_no_bytes_at_all_make_more_than_a_reason(tmp_path_factory, data, head):
    path = tmp_path_factory.getbasetemp() / "garbage.tsv"
    path.write_bytes(head + data)
    try:
        found = load.read(str(path))
    except ValueError:
        return
    assert not data
    assert (found.prices, found.places) == ((), ())
