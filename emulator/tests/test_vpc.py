"""Networks of one's own, by Google's client: profiles, ranges, rules, and which interfaces they take."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import GoogleAPICallError

from emulator.tests.compute import Clients, P
from gputrain_emulator import Cloud
from gputrain_emulator.compute import networks

REGION, ZONE = "us-central1", "us-central1-b"
PROFILE = f"projects/my-project/global/networkProfiles/{ZONE}-vpc-roce"
NETWORK = "projects/my-project/global/networks/rdma"


def network(clients: Clients) -> None:
    resource = {"name": "rdma", "auto_create_subnetworks": False, "network_profile": PROFILE}
    clients.of("Networks").insert(project=P, network_resource=resource)


def subnetwork(clients: Clients, name: str, ranges: str, region: str = REGION) -> None:
    resource = {"name": name, "network": NETWORK, "ip_cidr_range": ranges}
    clients.of("Subnetworks").insert(project=P, region=region, subnetwork_resource=resource)


def test_a_roce_network_lies_in_its_region_and_takes_no_rules(clients: Clients) -> None:
    network(clients)
    with pytest.raises(GoogleAPICallError, match="only allows resource creation in location"):
        subnetwork(clients, "a", "10.0.0.0/20", "us-east4")
    rule = {"name": "r", "network": NETWORK, "allowed": [{"I_p_protocol": "tcp"}]}
    with pytest.raises(GoogleAPICallError, match="not allowed by the network profile"):
        clients.of("Firewalls").insert(project=P, firewall_resource=rule)


@pytest.mark.parametrize(
    ("zone", "kinds", "sentence"),
    [
        (ZONE, ["MRDMA", "MRDMA"], ""),
        (ZONE, ["GVNIC"], "GVNIC is not supported by network rdma"),
        ("us-central1-a", ["MRDMA"], "only allows resource creation in location"),
    ],
)
def test_rdma_interfaces_share_their_network_and_nobody_else_gets_in(
    cloud: Cloud, clients: Clients, zone: str, kinds: list[str], sentence: str
) -> None:
    network(clients)
    for number in range(2):
        subnetwork(clients, f"rdma-{number}", f"192.168.{number}.0/24")
    nics = [{"network": "global/networks/default"}]
    nics += [
        {"subnetwork": f"regions/{REGION}/subnetworks/rdma-{number}", "nicType": kind}
        for number, kind in enumerate(kinds)
    ]
    if not sentence:
        assert len(networks.interfaces(cloud.compute, P, zone, nics)) == 1 + len(kinds)
        return
    with pytest.raises(Exception, match=sentence):
        networks.interfaces(cloud.compute, P, zone, nics)
