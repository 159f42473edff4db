"""Networks of one's own, by Google's client: profiles, ranges, rules, and which interfaces they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud import compute_v1

from gputrain_emulator import Cloud

REGION, ZONE = "us-central1", "us-central1-b"
PROFILE = f"projects/my-project/global/networkProfiles/{ZONE}-vpc-roce"
RULE = {"I_p_protocol": "tcp"}

Make = Callable[..., None]


@pytest.fixture
def client(cloud: Cloud) -> Callable[[str], Any]:
    def of(name: str) -> Any:
        kind = getattr(compute_v1, f"{name}Client")
        return kind(credentials=cloud.credentials, client_options=cloud.client_options)

    return of


@pytest.fixture
def network(client: Callable[[str], Any]) -> Make:
    def make(name: str, **fields: Any) -> None:
        resource = {"name": name, "auto_create_subnetworks": False, **fields}
        client("Networks").insert(project="my-project", network_resource=resource)

    return make


@pytest.fixture
def subnetwork(client: Callable[[str], Any]) -> Make:
    def make(network: str, name: str, ranges: str, region: str = REGION) -> None:
        resource = {
            "name": name,
            "network": f"projects/my-project/global/networks/{network}",
            "ip_cidr_range": ranges,
        }
        client("Subnetworks").insert(project="my-project", region=region, subnetwork_resource=resource)

    return make


def test_a_roce_network_lies_in_its_region_and_takes_no_rules(
    client: Callable[[str], Any], network: Make, subnetwork: Make
) -> None:
    network("rdma", network_profile=PROFILE)
    with pytest.raises(GoogleAPICallError, match="only allows resource creation in location"):
        subnetwork("rdma", "a", "10.0.0.0/20", "us-east4")
    rule = {"name": "r", "network": "projects/my-project/global/networks/rdma", "allowed": [RULE]}
    with pytest.raises(GoogleAPICallError, match="not allowed by the network profile"):
        client("Firewalls").insert(project="my-project", firewall_resource=rule)


def test_a_rule_is_listed_beside_those_of_the_default_network(
    client: Callable[[str], Any], network: Make
) -> None:
    network("one")
    rule = {
        "name": "r", "network": "projects/my-project/global/networks/one", "allowed": [RULE],
        "source_ranges": ["10.0.0.0/8"],
    }  # fmt: skip
    client("Firewalls").insert(project="my-project", firewall_resource=rule)
    listed = {one.name: one for one in client("Firewalls").list(project="my-project")}
    assert set(listed) == {"default-allow-internal", "default-allow-ssh", "r"}
    assert (listed["r"].direction, listed["r"].priority) == ("INGRESS", 1000)
    for wrong in ({"allowed": []}, {"source_ranges": ["here"]}):
        with pytest.raises(GoogleAPICallError):
            client("Firewalls").insert(project="my-project", firewall_resource={**rule, "name": "s", **wrong})


@pytest.mark.parametrize(
    ("machine", "zone", "kinds", "sentence"),
    [
        ("a4-highgpu-8g", ZONE, ["MRDMA", "MRDMA"], ""),
        ("a4-highgpu-8g", ZONE, ["GVNIC"], "GVNIC is not supported by network rdma"),
        ("a4-highgpu-8g", "us-central1-a", ["MRDMA"], "only allows resource creation in location"),
    ],
)
def test_rdma_interfaces_share_their_network_and_nobody_else_gets_in(
    cloud: Cloud, network: Make, subnetwork: Make, machine: str, zone: str, kinds: list[str], sentence: str
) -> None:
    network("rdma", network_profile=PROFILE)
    for number in range(2):
        subnetwork("rdma", f"rdma-{number}", f"192.168.{number}.0/24")
    from gputrain_emulator.compute import networks

    nics = [{"network": "global/networks/default"}]
    nics += [
        {"subnetwork": f"regions/{REGION}/subnetworks/rdma-{number}", "nicType": kind}
        for number, kind in enumerate(kinds)
    ]
    if not sentence:
        assert len(networks.interfaces(cloud.compute, "my-project", zone, nics)) == 1 + len(kinds)
        return
    with pytest.raises(Exception, match=sentence):
        networks.interfaces(cloud.compute, "my-project", zone, nics)
