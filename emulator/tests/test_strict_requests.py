"""Requests that clients of nobody here have sent, and the emulator once took or refused wrongly."""

# ruff: noqa: E501 - one row a line

from __future__ import annotations

import json
from typing import Any

from gputrain_emulator import Cloud
from gputrain_emulator.exchanges import Request
from tests.each import each

COMPUTE = "/compute/v1/projects/my-project"
ZONE = f"{COMPUTE}/zones/us-central1-a"
REGION = f"{COMPUTE}/regions/us-central1"
JOBS = "/v1/projects/my-project/locations/us-central1/customJobs"
DEBIAN = "projects/debian-cloud/global/images/family/debian-12"
BOOT = {"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": DEBIAN}}
DATA = {"initializeParams": {"diskSizeGb": "10"}, "autoDelete": True}
LOCAL = {
    "type": "SCRATCH",
    "autoDelete": True,
    "initializeParams": {"diskType": "zones/us-central1-a/diskTypes/local-ssd"},
}
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def ask(cloud: Cloud, verb: str, target: str, body: Any = None) -> tuple[int, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    reply = cloud.dispatcher.handle(Request(verb=verb, target=target, body=data)).reply
    assert isinstance(reply.body, bytes)
    return reply.status, json.loads(reply.body or b"null")


def vm(**more: Any) -> dict[str, Any]:
    machine = "zones/us-central1-a/machineTypes/n1-standard-4"
    return {"name": "vm-1", "machineType": machine, "disks": [BOOT], "networkInterfaces": [{}], **more}


def account(email: str = "default", scopes: tuple[str, ...] = (SCOPE,)) -> dict[str, Any]:
    return {"email": email, "scopes": list(scopes)}


REFUSED = {
    "a tag that is no name": (vm(tags={"items": ["Bad Tag"]}), "Bad Tag"),
    "two service accounts": (vm(serviceAccounts=[account(), account("a@my-project.iam.gserviceaccount.com")]), "serviceAccounts"),
    "two boot disks": (vm(disks=[BOOT, {**BOOT, "deviceName": "b"}]), "Boot disk"),
    "a boot disk behind another": (vm(disks=[DATA, BOOT]), "Boot disk"),
    "a local SSD that stays": (vm(disks=[BOOT, {**LOCAL, "autoDelete": False}]), "autoDelete"),
    "another zone inside": (vm(zone="us-central1-b"), "zone"),
    "two kinds of accelerators": (vm(guestAccelerators=[{"acceleratorType": "zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}] * 2, scheduling={"onHostMaintenance": "TERMINATE"}), "guestAccelerators"),
    "a policy twice": (vm(resourcePolicies=["regions/us-central1/resourcePolicies/a"] * 2), "resourcePolicies"),
}  # fmt: skip


@each("what", REFUSED)
def test_an_instance_that_google_refuses_is_refused(cloud: Cloud, what: str) -> None:
    body, words = REFUSED[what]
    status, told = ask(cloud, "POST", f"{ZONE}/instances", body)
    assert (status, words in told["error"]["message"]) == (400, True), told
    assert cloud.compute.vms == {}


TEMPLATE = {"machineType": "n1-standard-4", "disks": [BOOT], "networkInterfaces": [{}]}
BAD_TAG = {**TEMPLATE, "tags": {"items": ["Bad Tag"]}}
OTHERS = {
    "a machine image": ("POST", f"{ZONE}/instances?sourceMachineImage=nope", vm(), 501),
    "a second disk that stays": ("POST", f"{ZONE}/instances", vm(disks=[BOOT, DATA]), 501),
    "an accelerator that the zone has not": ("POST", f"{ZONE}/instances", vm(guestAccelerators=[{"acceleratorType": "nvidia-tesla-k80", "acceleratorCount": 1}]), 404),
    "a host name": ("POST", f"{ZONE}/instances", vm(hostname="a.example.com"), 501),
    "a platform": ("POST", f"{ZONE}/instances", vm(minCpuPlatform="Intel Skylake"), 501),
    "an end at a time": ("POST", f"{ZONE}/instances", vm(scheduling={"terminationTime": "2030-01-01T00:00:00Z"}), 501),
    "an address of one's choice": ("POST", f"{ZONE}/instances", vm(networkInterfaces=[{"networkIP": "10.128.0.9"}]), 501),
    "a machine to measure": ("POST", f"{ZONE}/instances", vm(machineType="zones/us-central1-a/machineTypes/custom-4-16384"), 501),
    "a gang with a tag that is no name": ("POST", f"{ZONE}/instances/bulkInsert", {"count": "1", "namePattern": "g-#", "instanceProperties": BAD_TAG}, 400),
    "a template without disks": ("POST", f"{COMPUTE}/global/instanceTemplates", {"name": "t", "properties": {**TEMPLATE, "disks": []}}, 400),
    "a template with a machine's address": ("POST", f"{COMPUTE}/global/instanceTemplates", {"name": "t", "properties": {**TEMPLATE, "machineType": "zones/us-central1-a/machineTypes/n1-standard-4"}}, 400),
    "a template without properties": ("POST", f"{COMPUTE}/global/instanceTemplates", {"name": "t"}, 400),
    "a template without networks": ("POST", f"{COMPUTE}/global/instanceTemplates", {"name": "t", "properties": {**TEMPLATE, "networkInterfaces": []}}, 400),
    "a template of an instance": ("POST", f"{COMPUTE}/global/instanceTemplates", {"name": "t", "sourceInstance": "zones/us-central1-a/instances/x"}, 501),
    "a policy of nothing": ("POST", f"{REGION}/resourcePolicies", {"name": "p"}, 400),
    "a policy for 99,999": ("POST", f"{REGION}/resourcePolicies", {"name": "p", "groupPlacementPolicy": {"collocation": "COLLOCATED", "vmCount": 99999}}, 400),
    "a snapshot schedule": ("POST", f"{REGION}/resourcePolicies", {"name": "p", "snapshotSchedulePolicy": {}}, 501),
    "a group with a size": ("POST", f"{ZONE}/instanceGroupManagers", {"name": "g", "instanceTemplate": "global/instanceTemplates/t", "targetSize": 3}, 501),
    "a reservation of nothing": ("POST", f"{ZONE}/reservations", {"name": "r"}, 400),
    "a selection of nothing": ("GET", f"{ZONE}/instances?fields=banana", None, 400),
    "a selection left open": ("GET", f"{ZONE}/instances?fields=items(name", None, 400),
    "a selection of a job": ("GET", f"{JOBS}?readMask=banana", None, 400),
    "a tongue that is none": ("GET", f"{ZONE}?alt=banana", None, 400),
    "a tongue not spoken": ("GET", f"{ZONE}?alt=proto", None, 501),
    "a call back": ("GET", f"{ZONE}?callback=f", None, 501),
    "a batch for nobody": ("POST", "/batch/anything", None, 404),
    "a quota of no region": ("PATCH", "/v1/projects/my-project/locations/global/quotaPreferences/q?allowMissing=true", {"service": "compute.googleapis.com", "quotaId": "CPUS-per-project-region", "quotaConfig": {"preferredValue": "100000"}, "dimensions": {"region": "us-nope"}, "contactEmail": "a@b.c"}, 400),
    "the images of Debian": ("GET", "/compute/v1/projects/debian-cloud/global/images", None, 200),
    "an older Debian": ("GET", "/compute/v1/projects/debian-cloud/global/images/family/debian-11", None, 200),
    "a rule that is not there": ("DELETE", f"{COMPUTE}/global/firewalls/none", None, 404),
    "an object that is not there": ("GET", "/storage/v1/b/bucket/o/missing", None, 404),
    "a page of objects that is none": ("GET", "/storage/v1/b/bucket/o?pageToken=!!", None, 400),
    "a generation that is none": ("DELETE", "/storage/v1/b/bucket/o/a?ifGenerationMatch=x", None, 400),
    "an upload of no kind": ("POST", "/upload/storage/v1/b/bucket/o", {}, 400),
    "an upload that never began": ("PUT", "/upload/storage/v1/b/bucket/o?upload_id=none", {}, 404),
    "a compose of no objects": ("POST", "/storage/v1/b/bucket/o/a/compose", {"sourceObjects": [1]}, 400),
    "metadata that is no text": ("PATCH", "/storage/v1/b/bucket/o/a", {"metadata": {"k": 1}}, 400),
    "a bucket of nobody's project": ("POST", "/storage/v1/b?project=nobody", {"name": "fine"}, 404),
    "all buckets deleted at once": ("DELETE", "/storage/v1/b", None, 405),
    "a service that is served": ("POST", "/v1/projects/my-project/services/secretmanager.googleapis.com:enable", {}, 200),
    "a service that nobody has": ("POST", "/v1/projects/my-project/services/banana.googleapis.com:enable", {}, 403),
}  # fmt: skip


@each("what", OTHERS)
def test_it_is_answered_as_google_does(cloud: Cloud, bucket: Any, what: str) -> None:
    verb, target, body, status = OTHERS[what]
    found = ask(cloud, verb, target, body)
    assert found[0] == status, found[1]


def test_images_and_missing_accounts_can_be_ordered_by_command(cloud: Cloud) -> None:
    cloud.admin("add_vm_image", {"project": "dstack", "name": "dstack-1", "family": "dstack"})
    disk = {**BOOT, "initializeParams": {"sourceImage": "projects/dstack/global/images/dstack-1"}}
    assert ask(cloud, "POST", f"{ZONE}/instances", vm(disks=[disk]))[0] == 200
    email = "gone@my-project.iam.gserviceaccount.com"
    cloud.admin("service_account", {"email": email, "exists": False})
    assert ask(cloud, "GET", f"/v1/projects/my-project/serviceAccounts/{email}")[0] == 404
    operation = ask(
        cloud, "POST", f"{ZONE}/instances", {**vm(serviceAccounts=[account(email)]), "name": "vm-2"}
    )[1]
    cloud.clock.advance(60)
    told = ask(cloud, "GET", f"{ZONE}/operations/{operation['name']}")[1]
    assert "of type 'serviceAccount' was not found" in told["error"]["errors"][0]["message"]
