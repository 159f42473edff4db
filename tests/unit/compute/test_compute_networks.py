"""VMs that would reach nothing are not made: who pays for GPUs wants to know before."""

import pytest

from gputrain import SpecError
from gputrain.backends.compute.networking import NoWayOutError
from gputrain_emulator.compute import networks
from tests.support.clouds import REGION


@pytest.fixture
def shut_in(cloud):
    networks.shut_in(cloud.compute, "my-project", REGION)
    return cloud


def test_a_network_without_a_way_to_the_bucket_is_told_with_the_command_that_mends_it(shut_in, jobs):
    with pytest.raises(NoWayOutError, match="would not reach the bucket") as caught:
        jobs.launch()
    assert "Private Google Access" in caught.value.why
    assert "subnets update default --region us-central1 --project my-project" in caught.value.fix
    assert jobs.vms() == []
    networks.add_nat(shut_in.compute, "my-project", REGION)
    jobs.launch()  # the same process sees that it is mended
    assert len(jobs.vms()) == 2


HOST = "projects/host-project"
SHARED = {
    "network": f"{HOST}/global/networks/shared",
    "subnetwork": f"{HOST}/regions/{REGION}/subnetworks/train",
}


def test_a_network_of_a_shared_vpc_is_used_and_looked_at_in_its_host_project(cloud, jobs_of):
    cloud.add_project("host-project")
    networks.add_network(cloud.compute, "host-project", "shared", [])
    networks.add_subnetwork(cloud.compute, "host-project", REGION, "shared", "train", "10.0.0.0/20")
    jobs = jobs_of(**SHARED)
    jobs.launch()
    nics = [nic for vm in cloud.compute.vms.values() for nic in vm.resource["networkInterfaces"]]
    assert len(nics) == 2
    assert all(one["subnetwork"].endswith(f"{HOST}/regions/{REGION}/subnetworks/train") for one in nics)
    networks.shut_in(cloud.compute, "host-project", REGION, "train")
    with pytest.raises(NoWayOutError) as caught:
        jobs.launch("other")
    assert f"subnets update train --region {REGION} --project host-project" in caught.value.fix
    with pytest.raises(SpecError, match="networks of one project"):
        jobs_of(network=SHARED["network"], subnetwork=f"projects/p-2/regions/{REGION}/subnetworks/train")


@pytest.mark.parametrize("settings", [{"external_ip": True}, {"check_network": False}])
@pytest.mark.usefixtures("shut_in")
def test_whoever_says_so_is_let_through(jobs_of, settings):
    jobs = jobs_of(**settings)
    jobs.launch()
    assert len(jobs.vms()) == 2


@pytest.mark.parametrize(
    "fields", [{"requirements": ["einops==0.8.0"]}, {"image": "ghcr.io/me/train@sha256:" + "0" * 64}]
)
def test_what_comes_from_beyond_google_needs_nat(cloud, jobs, fields):
    with pytest.raises(NoWayOutError, match="would not reach") as caught:
        jobs.launch(**fields)
    assert "routers nats create" in caught.value.fix
    networks.add_nat(cloud.compute, "my-project", REGION)
    jobs.launch(**fields)
