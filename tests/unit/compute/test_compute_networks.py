"""VMs that would reach nothing are not made: who pays for GPUs wants to know before."""

import pytest

from gputrain.backends.compute.networks import NoWayOutError
from gputrain.spec import TrainingSpec
from gputrain_emulator.compute import networks
from tests.unit.steps import Steps

REGION = "us-central1"


def spec(code, **fields):
    return TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h", **fields)


@pytest.fixture
def shut_in(cloud):
    networks.shut_in(cloud.compute, "my-project", REGION)
    return cloud


def test_a_network_without_a_way_to_the_bucket_is_told_with_the_command_that_mends_it(shut_in, road, code):
    with pytest.raises(NoWayOutError, match="would not reach the bucket") as caught:
        road.submit(spec(code))
    assert "Private Google Access" in caught.value.why
    assert "subnets update default --region us-central1 --project my-project" in caught.value.fix
    assert not shut_in.compute.vms
    assert road.backend.find() == ()


def test_once_it_is_mended_the_same_backend_goes_on(shut_in, road, code):
    with pytest.raises(NoWayOutError):
        road.submit(spec(code))
    networks.add_nat(shut_in.compute, "my-project", REGION)
    road.submit(spec(code))
    assert len(shut_in.compute.vms) == 1


@pytest.mark.parametrize("settings", [{"external_ip": True}, {"check_network": False}])
def test_whoever_says_so_is_let_through(shut_in, make, code, settings):
    Steps(make(**settings)).submit(spec(code))
    assert len(shut_in.compute.vms) == 1


@pytest.mark.parametrize(
    "fields", [{"requirements": ["einops==0.8.0"]}, {"image": "ghcr.io/me/train@sha256:" + "0" * 64}]
)
def test_what_comes_from_beyond_google_needs_nat(cloud, road, code, fields):
    with pytest.raises(NoWayOutError, match="would not reach") as caught:
        road.submit(spec(code, **fields))
    assert "routers nats create" in caught.value.fix
    networks.add_nat(cloud.compute, "my-project", REGION)
    road.submit(spec(code, **fields))


def test_a_job_that_names_its_own_index_is_believed(cloud, road, code):
    road.submit(spec(code, requirements=["einops==0.8.0"], env={"PIP_INDEX_URL": "https://index.internal"}))
    assert len(cloud.compute.vms) == 1


def test_a_network_that_may_not_be_looked_at_holds_nothing_up(cloud, road, code):
    for method in ("compute.subnetworks.get", "compute.routers.list"):
        cloud.fail(method, "C26", times=None)
    road.submit(spec(code))
    assert len(cloud.compute.vms) == 1
