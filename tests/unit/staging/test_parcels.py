"""Code on its way: packed without a write, and sent where it is missing."""

import pytest

import gputrain_emulator
from gputrain.errors import RequestError
from gputrain.gcp import Access
from gputrain.spec import TrainingSpec
from gputrain.staging import parcels
from gputrain.staging.upload import BucketPrefix
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
def parcel(access, tmp_path):
    (tmp_path / "train.py").write_text("pass\n")
    spec = TrainingSpec(script=str(tmp_path / "train.py"))
    found = parcels.pack(access, spec, BUCKET, "us-central1")
    assert found == parcels.pack(access, spec, BUCKET, "us-central1")
    return found


def uploads(cloud):
    return sum(one.method == "storage.objects.insert" for one in cloud.requests)


def test_packing_writes_nothing_and_names_the_code_by_its_content(cloud, parcel):
    assert parcel.location == f"gs://my-bucket/team/code/{parcel.sha256}.tar.gz"
    assert uploads(cloud) == 0


def test_code_that_is_there_is_not_sent_again(cloud, access, parcel):
    for _ in range(3):
        parcels.send(access, BUCKET, parcel.location, parcel.content)
    parcels.send(access, BUCKET, parcel.location, b"")
    assert uploads(cloud) == 1


def test_code_that_was_removed_meanwhile_is_sent_again_where_there_is_some(cloud, access, parcel):
    parcels.send(access, BUCKET, parcel.location, parcel.content)
    name = parcel.location.removeprefix("gs://my-bucket/")
    cloud.world.part(Storage).objects.delete("my-bucket", name)
    with pytest.raises(RequestError, match="is not there"):
        parcels.send(access, BUCKET, parcel.location, b"")
    parcels.send(access, BUCKET, parcel.location, parcel.content)
    assert uploads(cloud) == 2
