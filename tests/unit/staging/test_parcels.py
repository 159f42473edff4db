"""Code on its way: packed without a write, sent once, and not kept in memory after that."""

from pathlib import Path

import pytest

import gputrain_emulator
from gputrain.gcp import Access
from gputrain.spec import TrainingSpec
from gputrain.staging.bucket import BucketPrefix
from gputrain.staging.parcels import MOST_PACKED, Parcels
from gputrain_emulator.storage import Storage

BUCKET = BucketPrefix(name="my-bucket", prefix="team/")


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        yield running


@pytest.fixture
def parcels(cloud):
    access = Access(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)
    return Parcels(access)


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "train.py").write_text("pass\n")
    return TrainingSpec(script=str(tmp_path / "train.py"))


def name_of(parcel):
    return parcel.location.removeprefix("gs://my-bucket/")


def uploads(cloud):
    return sum(one.method == "storage.objects.insert" for one in cloud.requests)


def test_packing_writes_nothing_and_names_the_code_by_its_content(cloud, parcels, spec):
    parcel = parcels.pack(spec, BUCKET, "us-central1")
    assert parcel == parcels.pack(spec, BUCKET, "us-central1")
    assert parcel.location == f"gs://my-bucket/team/code/{parcel.sha256}.tar.gz"
    assert uploads(cloud) == 0


def test_code_is_sent_once_and_then_let_go(cloud, parcels, spec):
    name = name_of(parcels.pack(spec, BUCKET, "us-central1"))
    first = parcels.send(BUCKET, name)
    assert not parcels._packed.items()
    assert parcels.send(BUCKET, name) == first
    parcels.pack(spec, BUCKET, "us-central1")
    assert parcels.send(BUCKET, name) == first
    assert uploads(cloud) == 1


def test_code_that_was_removed_meanwhile_is_sent_again(cloud, parcels, spec):
    name = name_of(parcels.pack(spec, BUCKET, "us-central1"))
    first = parcels.send(BUCKET, name)
    cloud.world.part(Storage).objects.delete("my-bucket", name)
    parcels.pack(spec, BUCKET, "us-central1")
    assert parcels.send(BUCKET, name) > first
    assert uploads(cloud) == 2


def test_code_that_is_packed_and_never_sent_is_not_kept_for_good(parcels, spec):
    for number in range(MOST_PACKED + 20):
        Path(spec.script).write_text(f"print({number})\n")
        last = parcels.pack(spec, BUCKET, "us-central1")
    assert len(parcels._packed.items()) == MOST_PACKED
    assert parcels.send(BUCKET, name_of(last)) > 0
