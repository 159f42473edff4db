"""From an emulated cloud's lists to a file that new processes answer from, and back by removing it."""

import itertools
import json
import os
import subprocess
import sys
import threading

import pytest

import gputrain_emulator
from gputrain.catalog import load
from gputrain.catalog.load import UserFile
from gputrain.errors import ApiDisabledError, PermissionDeniedError, ProviderError, RequestError
from gputrain.gcp import Access
from gputrain.refresh import ChangeKind, refresh
from gputrain.refresh.road import write as write_file
from gputrain_emulator import facts, faults

MACHINES, ACCELERATORS = "compute.machineTypes.aggregatedList", "compute.acceleratorTypes.aggregatedList"
SKUS = "cloudbilling.services.skus.list"
NEW_GPU = facts.Machine(
    name="a9-highgpu-8g", accelerator="nvidia-r100", gpus=8, vcpus=256, memory_mib=4096 << 10, arch="X86_64",
    boot_disks=("hyperdisk-balanced",), standard=True, spot=True, flex_start=False, reservation=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def running():
    with gputrain_emulator.start() as cloud:
        yield cloud
        assert cloud.dispatcher.failures == []


@pytest.fixture
def cloud(running):
    """The same cloud for all; a test that changes stock or prices changes them back by leaving."""
    yield running
    running.compute.offers.clear()
    running.compute.new_machines.clear()
    running.world.part(gputrain_emulator.cloudbilling.PriceList).changed.clear()
    running.enable_api("cloudbilling")


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "data" / "catalog.tsv")


@pytest.fixture(scope="module")
def first(running, tmp_path_factory):
    """What a refresh wrote before anything changed."""
    file = tmp_path_factory.mktemp("first") / "catalog.tsv"
    refresh(access(running), file=str(file))
    return file.read_text()


@pytest.fixture
def filled(file, first):
    """A file as that refresh left it."""
    write_file(file, first)
    return file


def access(cloud, credentials=None):
    return Access(
        project=cloud.project, credentials=credentials or cloud.credentials, endpoints=cloud.endpoints,
        sleep=cloud.clock.advance, now=cloud.clock.now,
    )  # fmt: skip


def told(found, kind):
    return [one for one in found.changes if one.kind is kind]


def answer(file, question):
    """What a new process answers that looks for its tables there."""
    code = f"from gputrain import catalog; print({question})"
    env = {**os.environ, "GPUTRAIN_CATALOG": file}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout.strip()


def test_the_emulators_parts_add_up_to_the_prices_that_are_built_in(cloud, file):
    found = refresh(access(cloud), file=file)
    assert found.is_written
    assert found.left_out == ()
    assert told(found, ChangeKind.PRICE_CHANGED) == []
    assert told(found, ChangeKind.SKU_UNREAD) == told(found, ChangeKind.PRICE_REFUSED) == []
    own = load.read(file)
    fresh = [row for row in own.prices if row[-1].startswith("billing-")]
    assert len(fresh) > 280
    assert len([row for row in fresh if row[4]]) > 250, "flex-start has prices of its own"


def test_a_second_refresh_finds_nothing_new(cloud, filled):
    again = refresh(access(cloud), file=filled)
    assert again.changes == ()
    assert "nothing changed; written to" in str(again)


def test_new_processes_answer_from_the_new_tables_until_they_are_removed(cloud, file):
    cloud.price("nvidia-l4", "us-central1", "STANDARD", 0.66)
    cloud.offer("a2-highgpu-1g", "us-east4-a")
    cloud.offer("g2-standard-4", "us-central1-a", offered=False)
    price = "catalog.price('g2-standard-4', 'us-central1')"
    zones = "*catalog.zones(catalog.shapes(machine_type='{}')[0])".format
    before = answer(file, price)
    refresh(access(cloud), file=file)
    day = answer(file, f"{price}.date")
    assert answer(file, price) == f"$0.81/h ({day})"
    assert answer(file, f"{price}.source") == "Cloud Billing API: services/6F81-5844-456A/skus"
    assert "us-east4-a" in answer(file, zones("a2-highgpu-1g")).split()
    assert "us-central1-a" not in answer(file, zones("g2-standard-4")).split()
    assert answer(file, "catalog.price('a3-highgpu-2g', 'us-central1', 'flex-start')").startswith("$9.")
    os.unlink(file)
    assert answer(file, price) == before == "$0.71/h (2026-07-30)"


def test_it_reports_what_changed_and_by_how_much(cloud, filled):
    cloud.price("nvidia-l4", "us-central1", "STANDARD", 0.66)
    cloud.offer("a2-highgpu-1g", "us-east4-a")
    cloud.offer("a2-megagpu-16g", "europe-west4-a", offered=False)
    cloud.offer(NEW_GPU, "us-central1-a")
    found = refresh(access(cloud), file=filled)
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


def test_look_alikes_never_count_as_on_demand(cloud, filled):
    """Were a flex-start or reserved SKU taken for it, a standard price would be half of what it is."""
    for what, region, standard, spot, flex, source in load.read(filled).prices:
        if standard and spot and source.startswith("billing-"):
            assert float(spot) <= float(standard), (what, region)
        if standard and flex:
            assert float(flex) <= float(standard), (what, region)
    prices = {row[:2]: row[2:5] for row in load.read(filled).prices}
    assert prices["a2-highgpu-1g", "us-central1"] == ("3.673385", "1.92802", "2.020332")


def test_a_dry_run_writes_nothing(cloud, file):
    found = refresh(access(cloud), dry_run=True, file=file)
    assert found.changes
    assert not found.is_written
    assert not os.path.exists(os.path.dirname(file))


def test_a_list_that_google_could_not_finish_removes_nothing(cloud, filled):
    cloud.fail(MACHINES, faults.partial_page())
    found = refresh(access(cloud), file=filled)
    assert found.left_out == ("UNREACHABLE",)
    assert not told(found, ChangeKind.PLACES_REMOVED)
    assert not told(found, ChangeKind.GONE)
    assert "not read: UNREACHABLE" in str(found)


def test_a_zone_that_google_could_not_reach_keeps_its_machines(cloud, filled):

    def lose(page):
        items = {**page["items"], "zones/us-central1-a": {"warning": {"code": "UNREACHABLE"}}}
        return {**page, "items": items}

    cloud.fail(MACHINES, faults.Reshape(change=lose), times=None)
    cloud.offer("g2-standard-4", "us-central1-b", offered=False)
    found = refresh(access(cloud), file=filled)
    cloud.world.faults.clear()
    assert found.left_out == ("us-central1-a",)
    assert [(one.of, one.before) for one in told(found, ChangeKind.PLACES_REMOVED)] == [
        ("g2-standard-4", "us-central1-b")
    ]


@pytest.mark.parametrize("method", [MACHINES, ACCELERATORS, SKUS])
def test_a_passing_failure_is_tried_again(cloud, file, method):
    cloud.fail(method, faults.server_error(503), times=2)
    assert refresh(access(cloud), file=file).is_written


def test_an_api_that_is_off_is_told_and_nothing_is_written(cloud, file):
    cloud.enable_api("cloudbilling", enabled=False)
    with pytest.raises(ApiDisabledError, match="read the price list") as caught:
        refresh(access(cloud), file=file)
    assert "cloudbilling" in str(caught.value)
    assert not os.path.exists(file)


def test_a_missing_permission_is_told(cloud, file):
    someone = cloud.caller("viewer@my-project.example.com", {"serviceusage.services.use"})
    with pytest.raises(PermissionDeniedError, match="list the machineTypes"):
        refresh(access(cloud, cloud.credentials_of(someone)), file=file)


@pytest.mark.parametrize(
    ("method", "empty", "why"),
    [
        (MACHINES, {"items": {}}, "lists no machine type with GPUs"),
        (SKUS, {"skus": []}, "holds no GPU machine's price"),
    ],
)
def test_an_empty_list_does_not_empty_the_catalog(cloud, file, method, empty, why):
    cloud.fail(method, faults.Reshape(change=lambda _: empty))
    with pytest.raises(ProviderError, match=why):
        refresh(access(cloud), file=file)
    assert not os.path.exists(file)


def test_what_cannot_be_written_is_told_and_the_old_file_stays(cloud, tmp_path):
    (tmp_path / "plain").write_text("a file, not a folder")
    with pytest.raises(RequestError, match="cannot be written") as caught:
        refresh(access(cloud), file=str(tmp_path / "plain" / "catalog.tsv"))
    assert "$GPUTRAIN_CATALOG" in caught.value.fix
    with pytest.raises(RequestError, match="cannot be written"):
        refresh(access(cloud), file=os.devnull)
    assert not os.path.isfile(os.devnull)


def test_a_damaged_file_is_written_anew(cloud, filled):
    with open(filled, "a") as stream:
        stream.write("half a line")
    found = refresh(access(cloud), file=filled)
    assert told(found, ChangeKind.PRICE_NEW), "compared with the built-in tables"
    assert load.read(filled) is not None
    assert os.listdir(os.path.dirname(filled)) == ["catalog.tsv"], "no drafts are left"


def command(cloud, tmp_path, *options, **env):
    env = {
        **os.environ, "GPUTRAIN_CATALOG": str(tmp_path / "catalog.tsv"),
        "GOOGLE_CLOUD_PROJECT": cloud.project, **env,
    }  # fmt: skip
    words = [sys.executable, "-m", "gputrain.refresh", *options]
    return subprocess.run(words, env=env, capture_output=True, text=True)


def test_the_command_shows_a_table_and_writes_where_the_catalog_looks(cloud, tmp_path):
    result = command(cloud, tmp_path, "--endpoint", cloud.endpoints.compute)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Catalog of 20")
    assert "price new" in result.stdout
    assert answer(
        str(tmp_path / "catalog.tsv"), "catalog.price('g2-standard-4', 'us-central1', 'flex-start')"
    )


def test_the_command_tells_every_change_as_json_and_writes_nothing_on_a_dry_run(cloud, tmp_path):
    result = command(cloud, tmp_path, "--endpoint", cloud.endpoints.compute, "--dry-run", "--json")
    document = json.loads(result.stdout)
    assert document["is_written"] is False
    assert {"kind", "of", "region", "provisioning_model", "before", "now", "percent"} == set(
        document["changes"][0]
    )
    assert not (tmp_path / "catalog.tsv").exists()


def test_the_command_says_what_is_wrong(cloud, tmp_path):
    cloud.enable_api("cloudbilling", enabled=False)
    url = cloud.endpoints.compute
    result = command(cloud, tmp_path, "--endpoint", url)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"""fix: curl --data '{{"api":"cloudbilling"}}' {url}/_emulator/enable_api""" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_command_takes_no_credentials_to_an_address_that_is_not_of_this_machine(cloud, tmp_path):
    result = command(cloud, tmp_path, "--endpoint", "http://example.com")
    assert (result.returncode, result.stdout) == (1, "")
    assert "an emulator on this machine" in result.stderr


def test_the_command_asks_for_a_project(cloud, tmp_path):
    result = command(cloud, tmp_path, GOOGLE_CLOUD_PROJECT="")
    assert (result.returncode, result.stderr) == (2, "name a project: --project, or $GOOGLE_CLOUD_PROJECT\n")


def test_whoever_reads_while_it_is_written_sees_one_whole_table(tmp_path):
    file = str(tmp_path / "catalog.tsv")
    texts = {
        load.written(UserFile(read_on=day, sources=(), places=(), prices=load.built_in("prices")[:most])): day
        for day, most in (("2026-11-20", 400), ("2026-11-21", 5))
    }
    done = threading.Event()

    def write():
        for _, text in zip(range(100), itertools.cycle(texts)):
            write_file(file, text)
        done.set()

    write_file(file, next(iter(texts)))
    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        seen.append(load.read(file).read_on)  # raises for half a table
    writer.join()
    assert set(seen) <= set(texts.values())
    assert os.listdir(tmp_path) == ["catalog.tsv"]
