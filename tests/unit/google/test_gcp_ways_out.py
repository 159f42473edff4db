"""Where VMs without addresses get to: what Google's two documents of a network together say."""

from gputrain.backends.compute.networking import WaysOut, commands, ways_out
from tests.each import each

HOST = "https://www.googleapis.com/compute/v1/projects/p"
NETWORK = f"{HOST}/global/networks/n"
SUBNETWORK = f"{HOST}/regions/r/subnetworks/s"


def subnetwork(has_access):
    return {"selfLink": SUBNETWORK, "network": NETWORK, "privateIpGoogleAccess": has_access}


def router(network=NETWORK, **nat):
    return {"network": network, "nats": [{"sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS", **nat}]}


ALL = {"sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}
OURS = {"subnetworks": [{"name": SUBNETWORK.replace("www.googleapis.com/compute", "compute.googleapis.com")}]}


@each(
    ("has_access", "routers", "google", "internet"),
    [
        (True, [], True, False),
        (False, [], False, False),
        (False, [router(**ALL)], True, True),
        (False, [router(**OURS)], True, True),
        (False, [router(subnetworks=[{"name": f"{HOST}/regions/r/subnetworks/other"}])], False, False),
        (False, [router(**ALL, type="PRIVATE")], False, False),
        (False, [router(**ALL, type="SOME_OTHER")], False, False),
        (False, [router(network=f"{HOST}/global/networks/other", **ALL)], False, False),
        (False, [router(network=f"{HOST}/global/networks/a", **ALL)], False, False),
        (True, [{"network": NETWORK}, router(**ALL)], True, True),
    ],
)
def test_access_leads_to_google_and_nat_to_everything(has_access, routers, google, internet):
    assert ways_out(subnetwork(has_access), routers) == WaysOut(to_google=google, to_internet=internet)


def test_the_commands_are_those_that_open_the_way():
    assert commands("p", "r", "n", "s", to_internet=False) == (
        "gcloud compute networks subnets update s --region r --project p --enable-private-ip-google-access"
    )
    assert "--nat-all-subnet-ip-ranges" in commands("p", "r", "n", "s", to_internet=True)
