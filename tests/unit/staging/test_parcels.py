"""Code on its way: packed without a write, and sent where it is missing."""

import pytest

import gputrain_emulator
from gputrain.errors import RequestError
from gputrain.gcp import Access
from gputrain.gcp.buckets import BucketPrefix
from gputrain.spec import TrainingSpec
from gputrain.staging import parcels, resolve
from gputrain_emulator.storage import Storage

BUCKET = BucketPrefix(name="my-bucket", prefix="team/")


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        yield running


@pytest.fixture
def access(cloud):
    return Access(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)


@pytest.fixture
def parcel(tmp_path):
    (tmp_path / "train.py").write_text("pass\n")
    source = resolve(TrainingSpec(script=str(tmp_path / "train.py")), installed=False)
    found = parcels.pack(source)
    assert found == parcels.pack(source)
    return found


def place_of(parcel):
    return BUCKET.uri("code", parcel.name)


def uploads(cloud):
    return sum(one.method == "storage.objects.insert" for one in cloud.requests)


def test_packing_writes_nothing_and_names_the_code_by_its_content(cloud, parcel):
    assert parcel.name == f"{parcel.sha256}.tar.gz"
    assert uploads(cloud) == 0


def test_code_that_is_there_is_not_sent_again(cloud, access, parcel):
    for _ in range(3):
        parcels.send(access, BUCKET, place_of(parcel), parcel.data)
    parcels.send(access, BUCKET, place_of(parcel), b"")
    assert uploads(cloud) == 1


def test_code_that_was_removed_meanwhile_is_sent_again_where_there_is_some(cloud, access, parcel):
    parcels.send(access, BUCKET, place_of(parcel), parcel.data)
    name = place_of(parcel).removeprefix("gs://my-bucket/")
    cloud.world.part(Storage).objects.delete("my-bucket", name)
    with pytest.raises(RequestError, match="is not there") as caught:
        parcels.send(access, BUCKET, place_of(parcel), b"")
    assert caught.value.try_elsewhere  # another backend's bucket may have it
    parcels.send(access, BUCKET, place_of(parcel), parcel.data)
    assert uploads(cloud) == 2
