from fractions import Fraction

import pytest

from gputrain import catalog
from gputrain.catalog import CompactPlacement, ProvisioningModel, ReservationKind, Service
from gputrain.errors import NoFitError

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
FLEX, RESERVED = ProvisioningModel.FLEX_START, ProvisioningModel.RESERVATION_BOUND


def compute(machine_type):
    return catalog.machine(machine_type).sold_as(Service.COMPUTE)


def vertex(machine_type):
    return catalog.machine(machine_type).sold_as(Service.VERTEX)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_compute_sells_small_h100_machines_only_as_spot_or_flex_start(count):
    assert compute(f"a3-highgpu-{count}g") == (SPOT, FLEX)
    assert STANDARD in vertex(f"a3-highgpu-{count}g")


@pytest.mark.parametrize("machine_type", ["a4-highgpu-8g", "a3-ultragpu-8g"])
def test_a4_and_a3_ultra_have_no_plain_on_demand(machine_type):
    assert compute(machine_type) == (SPOT, FLEX, RESERVED)


@pytest.mark.parametrize("machine_type", ["a4x-highgpu-4g", "a4x-maxgpu-4g-metal"])
def test_a4x_is_had_by_reservation_alone(machine_type):
    assert compute(machine_type) == (RESERVED,)
    assert STANDARD not in vertex(machine_type)


@pytest.mark.parametrize(
    "machine_type",
    ["a3-edgegpu-8g", "a4x-maxgpu-4g-metal", "a3-ultragpu-8g-nolssd", "g4-standard-6", "g4-standard-24"],
)
def test_what_vertex_does_not_list_is_not_offered_there(machine_type):
    assert vertex(machine_type) == ()


def test_flex_start_on_vertex_is_for_l4_a100_h100_h200_and_b200_only():
    kinds = {shape.gpu.kind for shape in catalog.shapes(service=Service.VERTEX, provisioning_model=FLEX)}
    assert kinds == {"L4", "A100-40GB", "A100-80GB", "H100", "H200", "B200"}


def test_only_grace_hosts_are_arm64():
    arm = {machine.machine_type for machine in catalog.machines() if machine.cpu_architecture == "arm64"}
    assert arm == {"a4x-highgpu-4g", "a4x-maxgpu-4g-metal"}


def test_new_families_boot_from_hyperdisk_only():
    families = {m.family.name for m in catalog.machines() if m.boot_disk_types == ("hyperdisk-balanced",)}
    assert families == {"A4X Max", "A4X", "A4", "A3 Ultra", "G4"}


def test_only_n1_needs_cpu_quota():
    assert {m.family.name for m in catalog.machines() if m.family.needs_cpu_quota} == {"N1"}


def test_a_part_of_a_gpu_is_counted_exactly():
    assert [catalog.machine(f"g4-standard-{vcpus}").gpu_count for vcpus in (6, 12, 24)] == [
        Fraction(1, 8),
        Fraction(1, 4),
        Fraction(1, 2),
    ]


def test_placement_is_recommended_for_a3_mega():
    assert catalog.machine("a3-megagpu-8g").family.placement is CompactPlacement.RECOMMENDED


def test_small_h100_machines_take_no_reservation():
    assert catalog.machine("a3-highgpu-1g").terms.reservations == ()
    assert ReservationKind.CALENDAR in catalog.machine("a4-highgpu-8g").terms.reservations


def test_n1_memory_follows_its_series():
    sizes = {
        name: catalog.machine(name).memory_gib for name in ("n1-standard-8", "n1-highmem-96", "n1-highcpu-16")
    }
    assert sizes == {"n1-standard-8": 30, "n1-highmem-96": 624, "n1-highcpu-16": pytest.approx(14.4)}


def test_a_machine_nobody_knows_names_the_nearest():
    with pytest.raises(NoFitError) as caught:
        catalog.machine("a3-highgpu-3g")
    assert caught.value.nearest == ("a3-highgpu-8g", "a3-highgpu-4g", "a3-highgpu-2g")


def test_machine_types_are_listed_once():
    names = [machine.machine_type for machine in catalog.machines()]
    assert len(names) == len(set(names)) == 36 + 22
