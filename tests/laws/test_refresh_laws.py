"""Laws of the refreshed tables: whatever Google's lists hold, what is written is sound."""

import pytest
from hypothesis import strategies as st

import gputrain_emulator
from gputrain import catalog
from gputrain.catalog import load
from gputrain.catalog.refresh import ChangeKind, inventory, prices_of, rebuilt
from gputrain.catalog.skus import rates_of
from gputrain.google.listing import Listing
from gputrain_emulator import facts
from gputrain_emulator.cloudbilling import PriceList
from tests.laws.drawn import drawn

DAY = "2026-11-21"
PARTS = sorted(facts.part_prices())
MACHINES = [machine for machine in catalog.machines() if machine.gpu]
KINDS = {machine.gpu: catalog.find(machine.gpu).accelerator_type for machine in MACHINES}
ZONES = sorted({zone for machine in MACHINES for zone in catalog.zones(catalog.shapes(machine_type=machine.machine_type)[0])})  # fmt: skip  # noqa: E501


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


EVERYWHERE = inventory(
    Listing(documents((m, zone) for m in MACHINES for zone in ZONES)),
    Listing(tuple({"name": "nvidia-tesla-t4", "zone": zone} for zone in ZONES)),
)
moves = st.lists(
    st.tuples(
        st.sampled_from(PARTS),
        st.sampled_from(("STANDARD", "SPOT", "FLEX_START")),
        st.one_of(st.none(), st.decimals("0.000000001", "50000", places=9)),
    ),
    max_size=40,
)


BUILT_IN = {name: load.built_in(name) for name in load.COLUMNS}
REGIONS = frozenset(map(catalog.region_of, ZONES))
EVERY_PLACE = {("machine-regions", machine.machine_type): REGIONS for machine in MACHINES} | {
    ("gpu-regions", "T4"): REGIONS
}


def check_sound(tables):
    """What is written is read back the same."""
    for name, rows in tables.items():
        head = ",".join(load.COLUMNS[name])
        lines = [",".join(row[column] for column in load.COLUMNS[name]) for row in rows]
        assert load.parsed(name, [head, *lines]) == rows


@drawn(6, 60, moves=moves)
def test_no_spot_price_is_above_its_standard_price_and_each_refused_one_is_told(listed, moves):
    listed.changed = {(*part, model): usd for part, model, usd in moves}
    rates, _ = rates_of(listed.skus())
    tables, changes = rebuilt(BUILT_IN, EVERYWHERE, rates, day=DAY)
    check_sound(tables)  # which refuses a spot price above the standard price
    refused = {(one.of, one.region) for one in changes if one.kind is ChangeKind.PRICE_REFUSED}
    standard, spot = list(load.FIGURES.values())[:2]
    assert refused == {
        key
        for key, usd in prices_of(rates, EVERY_PLACE).items()
        if (standard in usd and spot in usd and usd[spot] > usd[standard])
        or max(usd.values()) >= load.MOST_USD_H
    }


some_places = st.lists(st.tuples(st.sampled_from(MACHINES), st.sampled_from(ZONES)), max_size=30)


@drawn(10, 100, first=some_places, then=some_places, silent=st.lists(st.sampled_from(ZONES), max_size=5))
def test_after_any_two_refreshes_a_machine_is_just_where_it_was_seen_last(first, then, silent):
    own, _ = rebuilt(BUILT_IN, inventory(Listing(documents(first)), Listing(())), {}, day=DAY)
    seen = inventory(Listing(documents(then), tuple(silent)), Listing(()))
    now, _ = rebuilt(own, seen, {}, day=DAY)
    zones = {row["of"]: set(row["places"].split()) for row in now["places"] if row["list"] == "machine-zones"}
    for machine in MACHINES:
        before = {zone for one, zone in first if one is machine}
        after = {zone for one, zone in then if one is machine}
        assert zones[machine.machine_type] == after | (before & set(silent)), machine.machine_type
    again, changes = rebuilt(now, seen, {}, day=DAY)
    assert again == now
    assert changes == ()
