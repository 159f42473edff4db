"""The emulator's own tables hang together."""

from __future__ import annotations

from gputrain_emulator import facts


def test_every_accelerator_has_its_quotas() -> None:
    kinds = {machine.accelerator for machine in facts.machines().values() if machine.accelerator}
    kinds |= {kind for kind, _ in facts.attach_limits()}
    assert kinds == set(facts.gpu_quotas())
    for names in facts.gpu_quotas().values():
        assert bool(names.regional_metric) is not bool(names.gpu_family)


def test_every_gpu_machine_is_sold_where_its_accelerator_is() -> None:
    for machine in facts.machines().values():
        places = [zone for zone in facts.zones() if facts.offered(machine.name, zone)]
        assert places, machine.name
        if (
            machine.accelerator and machine.accelerator != "nvidia-gb300"
        ):  # bare metal: no accelerator type is listed
            assert set(places) <= set(facts.accelerator_zones()[machine.accelerator]), machine.name


def test_a_machine_can_be_had_in_some_way() -> None:
    for machine in facts.machines().values():
        assert machine.standard or machine.spot or machine.flex_start or machine.reservation, machine.name
        assert machine.boot_disks


def test_spot_is_never_dearer_than_standard() -> None:
    for name in facts.machines():
        for region in facts.regions():
            standard = facts.price_usd_h(name, region, "STANDARD")
            assert 0 <= facts.price_usd_h(name, region, "SPOT") <= standard or standard == 0


def test_the_rules_that_cost_most_to_get_wrong() -> None:
    """docs.cloud.google.com/compute/docs/gpus, read 2026-11-20."""
    machines = facts.machines()
    assert not machines["a3-highgpu-2g"].standard
    assert machines["a3-highgpu-8g"].standard
    assert machines["a4-highgpu-8g"].boot_disks == ("hyperdisk-balanced",)
    assert not machines["a4x-highgpu-4g"].spot
    assert not machines["a4x-highgpu-4g"].flex_start
    assert ("nvidia-tesla-t4", 8) not in facts.attach_limits()
    assert facts.gpu_quotas()["nvidia-h100-80gb"].gpu_family == "NVIDIA_H100"
