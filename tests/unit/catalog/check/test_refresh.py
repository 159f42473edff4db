"""From an emulated cloud's lists to a file that new processes answer from, and back by removing it."""

import os
import shutil
import subprocess
import sys

import pytest

from gputrain.catalog import load
from gputrain.catalog.refresh import ChangeKind, refresh
from gputrain.errors import ApiDisabledError, ProviderError
from gputrain_emulator import facts, faults, start
from gputrain_emulator.cloudbilling import PriceList
from tests.support.clouds import client

MACHINES, ACCELERATORS = "compute.machineTypes.aggregatedList", "compute.acceleratorTypes.aggregatedList"
SKUS = "cloudbilling.services.skus.list"
NEW_GPU = facts.Machine(
    name="a9-highgpu-8g", accelerator="nvidia-r100", gpus=8, vcpus=256, memory_mib=4096 << 10, arch="X86_64",
    boot_disks=("hyperdisk-balanced",), standard=True, spot=True, flex_start=False, reservation=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def running():
    with start() as cloud:
        yield cloud
        assert cloud.dispatcher.failures == []


@pytest.fixture
def cloud(running):
    """The same cloud for all; a test that changes stock or prices changes them back by leaving."""
    yield running
    running.compute.offers.clear()
    running.compute.new_machines.clear()
    running.world.part(PriceList).changed.clear()
    running.enable_api("cloudbilling")


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "data" / "catalog")


@pytest.fixture(scope="module")
def first(running, tmp_path_factory):
    """What a refresh wrote before anything changed."""
    folder = str(tmp_path_factory.mktemp("first"))
    refresh(access(running), folder=folder)
    return folder


@pytest.fixture
def filled(folder, first):
    """A folder as that refresh left it."""
    shutil.copytree(first, folder)
    return folder


def access(cloud, credentials=None):
    own = {"credentials": credentials} if credentials else {}
    return client(cloud, sleep=cloud.clock.advance, now=cloud.clock.now, **own)


def told(found, kind):
    return [one for one in found.changes if one.kind is kind]


def answer(folder, question):
    """What a new process answers that looks for its tables there."""
    code = f"from gputrain import catalog; print({question})"
    env = {**os.environ, "GPUTRAIN_CATALOG": folder}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout.strip()


def test_the_emulators_parts_add_up_to_the_prices_that_are_built_in(cloud, folder):
    found = refresh(access(cloud), folder=folder)
    assert found.is_written
    assert found.left_out == ()
    assert all(abs(one.percent) < 0.001 for one in told(found, ChangeKind.PRICE_CHANGED))
    assert told(found, ChangeKind.SKU_UNREAD) == []
    fresh = [row for row in load.user_rows(folder, "prices") if row["source"].startswith("Cloud Billing API")]
    assert len(fresh) > 280
    assert len([row for row in fresh if row["flex_start"]]) > 250, "flex-start has prices of its own"


def test_new_processes_answer_from_the_new_tables_until_they_are_removed(cloud, folder):
    cloud.price("nvidia-l4", "us-central1", "STANDARD", 0.66)
    cloud.offer("a2-highgpu-1g", "us-east4-a")
    cloud.offer("g2-standard-4", "us-central1-a", offered=False)
    price = "catalog.price('g2-standard-4', 'us-central1')"
    zones = "*catalog.zones(catalog.shapes(machine_type='{}')[0])".format
    before = answer(folder, price)
    refresh(access(cloud), folder=folder)
    day = answer(folder, f"{price}.date")
    assert answer(folder, price) == f"$0.81/h ({day})"
    assert answer(folder, f"{price}.source") == "Cloud Billing API: services/6F81-5844-456A/skus"
    assert "us-east4-a" in answer(folder, zones("a2-highgpu-1g")).split()
    assert "us-central1-a" not in answer(folder, zones("g2-standard-4")).split()
    assert answer(folder, "catalog.price('a3-highgpu-2g', 'us-central1', 'flex-start')").startswith("$9.")
    shutil.rmtree(folder)
    assert answer(folder, price) == before == "$0.71/h (2026-07-30)"


def test_it_reports_what_changed_and_by_how_much(cloud, filled):
    cloud.price("nvidia-l4", "us-central1", "STANDARD", 0.66)
    cloud.offer("a2-highgpu-1g", "us-east4-a")
    cloud.offer("a2-megagpu-16g", "europe-west4-a", offered=False)
    cloud.offer(NEW_GPU, "us-central1-a")
    found = refresh(access(cloud), folder=filled)
    (added,) = told(found, ChangeKind.PLACES_ADDED)
    assert (added.of, added.now) == ("a2-highgpu-1g", "us-east4-a")
    (removed,) = told(found, ChangeKind.PLACES_REMOVED)
    assert (removed.of, removed.before) == ("a2-megagpu-16g", "europe-west4-a")
    assert [one.of for one in told(found, ChangeKind.NEW_MACHINE)] == ["a9-highgpu-8g"]
    assert [one.of for one in told(found, ChangeKind.NEW_GPU)] == ["nvidia-r100"]
    dearer = {one.of: one for one in told(found, ChangeKind.PRICE_CHANGED)}
    assert set(dearer) == {f"g2-standard-{n}" for n in (4, 8, 12, 16, 24, 32, 48, 96)}
    four = dearer["g2-standard-4"]
    assert (four.region, four.provisioning_model, four.before, four.now) == (
        "us-central1", "standard", "0.706832", "0.806792",
    )  # fmt: skip
    assert four.percent == pytest.approx(14.14, abs=0.01)
    assert "+14.1" in str(found)


def test_a_zone_that_google_could_not_reach_keeps_its_machines(cloud, filled):

    def lose(page):
        items = {**page["items"], "zones/us-central1-a": {"warning": {"code": "UNREACHABLE"}}}
        return {**page, "items": items}

    cloud.fail(MACHINES, faults.Reshape(change=lose), times=None)
    cloud.offer("g2-standard-4", "us-central1-b", offered=False)
    found = refresh(access(cloud), folder=filled)
    cloud.world.faults.clear()
    assert found.left_out == ("us-central1-a",)
    assert [(one.of, one.before) for one in told(found, ChangeKind.PLACES_REMOVED)] == [
        ("g2-standard-4", "us-central1-b")
    ]


def test_an_api_that_is_off_is_told_and_nothing_is_written(cloud, folder):
    cloud.enable_api("cloudbilling", enabled=False)
    with pytest.raises(ApiDisabledError, match="read the price list") as caught:
        refresh(access(cloud), folder=folder)
    assert "cloudbilling" in str(caught.value)
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("method", "empty", "why"),
    [
        (MACHINES, {"items": {}}, "lists no machine type with GPUs"),
        (SKUS, {"skus": []}, "holds no GPU machine's price"),
    ],
)
def test_an_empty_list_does_not_empty_the_catalog(cloud, folder, method, empty, why):
    cloud.fail(method, faults.Reshape(change=lambda _: empty))
    with pytest.raises(ProviderError, match=why):
        refresh(access(cloud), folder=folder)
    assert not os.path.exists(folder)
