"""Each thing that can be wrong, seen before a job is made, with what mends it; and all of them at once."""

import pytest
from google.oauth2.credentials import Credentials

from gputrain import Trainer
from gputrain_emulator import faults
from gputrain_emulator.compute import images, networks
from gputrain_emulator.iam import Accounts
from gputrain_emulator.oauth import invalid_grant
from tests.each import each
from tests.unit.doctor.conftest import ACCOUNT, REGION

BOTH = pytest.mark.parametrize("kind", ["vertex", "compute"])
IMAGE = "us-docker.pkg.dev/my-project/train/image"


def found(checks):
    """The faults as (what, fix)."""
    return [(fault.subject, fault.fix) for fault in checks.faults]


@BOTH
def test_a_project_that_is_not_there_is_the_one_fault(doctor, kind):
    checks = doctor(kind, project="not-my-project")
    assert found(checks) == [("project not-my-project", "gcloud projects list")]
    assert all("fix project not-my-project first" in one.why for one in checks.unknowns)


@BOTH
def test_credentials_that_are_refused_are_the_one_fault(cloud, backend_of, kind):
    cloud.fail("oauth.token", invalid_grant("Token has been expired or revoked."))
    stale = Credentials(
        None, refresh_token=cloud.owner.refresh_token, token_uri=cloud.endpoints.token_uri,
        client_id="emulator", client_secret="emulator",
    )  # fmt: skip
    checks = Trainer(backend_of(kind, credentials=stale)).doctor()
    assert found(checks) == [
        ("credentials", "run `gcloud auth application-default login`, or pass credentials=")
    ]
    assert len(cloud.requests) == 1


@pytest.mark.parametrize(
    ("kind", "api"),
    [("vertex", "aiplatform"), ("vertex", "storage"), ("vertex", "logging"), ("compute", "compute")],
)
def test_an_api_that_is_off_is_named_with_the_command_that_enables_it(cloud, doctor, kind, api):
    cloud.enable_api(api, enabled=False)
    name = f"{api}.googleapis.com"
    command = f"gcloud services enable {name} --project my-project"
    checks = doctor(kind)
    assert (name, command) in found(checks)
    assert {fix for _, fix in found(checks)} == {command}


@pytest.mark.parametrize("method", ["serviceusage.services.batchGet", "compute.networks.get"])
def test_what_is_not_answered_is_unknown_and_is_not_waited_for_long(cloud, doctor, method):
    cloud.fail(method, faults.server_error(503), times=None)
    before = cloud.clock.now()
    checks = doctor("compute")
    assert checks.is_ok
    assert len(checks.unknowns) == 1
    assert cloud.clock.now() - before < 60


@BOTH
def test_a_bucket_that_is_not_there_comes_with_the_command_that_makes_it(doctor, kind):
    command = f"gcloud storage buckets create gs://gone --project my-project --location {REGION}"
    assert found(doctor(kind, bucket="gs://gone")) == [("bucket gs://gone", command)]


@BOTH
def test_a_bucket_elsewhere_is_told_with_both_places(cloud, doctor, kind):
    cloud.add_bucket("far-bucket", location="europe-west4")
    checks = doctor(kind, bucket="gs://far-bucket")
    assert "it lies in europe-west4" in checks.faults[0].why
    assert f"--location {REGION}" in checks.faults[0].fix


@BOTH
def test_a_service_account_that_is_not_there_or_off_is_a_fault(cloud, doctor, kind):
    accounts = cloud.world.part(Accounts)
    accounts.disabled.add(ACCOUNT)
    off = f"gcloud iam service-accounts enable {ACCOUNT} --project my-project"
    assert found(doctor(kind)) == [(f"service account {ACCOUNT}", off)]
    accounts.missing.add(ACCOUNT)
    gone = "gcloud iam service-accounts create train --project my-project"
    assert found(doctor(kind)) == [(f"service account {ACCOUNT}", gone)]


def test_networks_and_subnetworks_are_looked_for_in_each_region(cloud, doctor):
    networks.add_network(cloud.compute, "my-project", "mine", (REGION,))
    where = {"network": "mine", "regions": [REGION, "us-east4"]}
    ((subject, fix),) = found(doctor("compute", **where))
    assert subject == "subnetwork mine in us-east4"
    assert fix.startswith("gcloud compute networks subnets create mine --project my-project --network mine")
    subjects = [fault.subject for fault in doctor("compute", network="gone").faults]
    assert subjects == ["network gone", f"subnetwork gone in {REGION}"]


FAMILY = "deeplearning-platform-release/pytorch-2-9-cu129-ubuntu-2404-nvidia-580"


@pytest.fixture
def between(cloud, doctor, code):
    """What is told of how the GPUs of a gang would talk, of networks of their own without anything."""

    def told(way, gpu, count, num_nodes=2, **more):
        names = [f"gpu-{number}" for number in range(count)]
        for name in names:
            if not any(path.endswith(f"/{name}") for path in cloud.compute.resources["networks"]):
                networks.add_network(cloud.compute, "my-project", name, (REGION,))
        spec = {"entry": code, "gpu": gpu, "num_nodes": num_nodes, **more}
        checks = doctor("compute", spec=spec, gpu_subnetworks=names, image_family=FAMILY)
        return {one.why for one in checks if one.subject.startswith(f"{way} between ")}

    return told


def test_networks_of_gpus_have_their_mtu_and_a_rule_that_lets_them_talk(cloud, between):
    assert between("tcpx", "H100:8", 4, num_nodes=1) == set()
    found = between("tcpx", "H100:8", 4)
    for number in range(4):
        name = f"gpu-{number}"
        assert f"network {name} has MTU None, and Google's recipe 8244" in found
        assert f"no firewall rule lets VMs of network {name} reach each other on all ports" in found
        path = f"projects/my-project/global/networks/{name}"
        network = cloud.compute.resources["networks"][path]
        cloud.compute.resources["networks"][path] = {**network, "mtu": 8244}
        cloud.compute.resources["firewalls"][f"projects/my-project/global/firewalls/{name}"] = {
            "name": name, "network": network["selfLink"], "direction": "INGRESS",
            "sourceRanges": ["10.0.0.0/16"], "allowed": [{"IPProtocol": "all"}],
        }  # fmt: skip
    assert len(found) == 8
    assert {one[:5] for one in between("tcpx", "H100:8", 4)} == {"up to"}


def test_networks_of_rdma_have_the_profile_of_their_zone(between):
    found = between("gib", "H200:8", 9, provisioning_model="spot")
    assert len([one for one in found if "has no profile, and RDMA needs us-central1-" in one]) >= 8
    assert {one.split()[1] for one in found if "MTU" in one} == {"gpu-0"}


def test_vms_that_would_reach_nothing_are_told_with_the_command_that_opens_a_way(cloud, doctor, code):
    spec = {"entry": code, "gpu": "L4:1", "requirements": ["attrs"]}
    ((subject, fix),) = found(doctor("compute", spec=spec))
    assert subject == f"ways out of {REGION}"
    assert "gcloud compute routers nats create" in fix
    networks.shut_in(cloud.compute, "my-project", REGION)
    ((subject, fix),) = found(doctor("compute"))
    assert "--enable-private-ip-google-access" in fix
    assert doctor("compute", external_ip=True).is_ok
    networks.add_nat(cloud.compute, "my-project", REGION)
    assert doctor("compute", spec=spec).is_ok


def test_a_boot_image_that_is_gone_or_of_another_cpu_is_a_fault(cloud, doctor, code):
    checks = doctor("compute", image_family="my-project/gone")
    assert [fault.subject for fault in checks.faults] == ["boot image gone"]
    assert "images list --project my-project " in checks.faults[0].fix
    images.add_image(cloud.compute, "my-project", "mine-arm64", "mine", 20)
    spec = {"entry": code, "gpu": "L4:1"}
    checks = doctor("compute", spec=spec, image_family="my-project/mine")
    assert checks.faults[0].why == "it is for arm64, and g2-standard-4 is x86_64"


@BOTH
@each(
    ("tag", "platforms", "why"),
    [
        (
            "cu117",
            ["linux/amd64"],
            "CUDA 11.7 cannot run on H100: H100 is sm_90, which needs CUDA 11.8 or newer",
        ),
        ("1-arm64", ["linux/arm64"], "the image is built for arm64: the host's CPU is x86_64"),
        ("2", ["linux/arm64", "linux/s390x"], "it is built for arm64, s390x, and the host's CPU is x86_64"),
        ("gone", None, "us-docker.pkg.dev has no such image"),
    ],
)
def test_an_image_that_is_not_there_or_not_fit_is_a_fault(cloud, doctor, code, kind, tag, platforms, why):
    if platforms:
        cloud.add_image(f"{IMAGE}:{tag}", platforms)
    spec = {"entry": code, "gpu": "H100:8", "image": f"{IMAGE}:{tag}"}
    told = [fault.why for fault in doctor(kind, spec=spec).faults]
    assert [fault for fault in told if "docker, which" not in fault] == [why]  # that one wants Cloud NAT


def test_an_image_of_another_registry_is_unknown_and_nobody_is_asked(cloud, doctor, code):
    checks = doctor("vertex", spec={"entry": code, "gpu": "L4:1", "image": "quay.io/me/image:1"})
    assert [one.subject for one in checks.unknowns] == ["image quay.io/me/image:1 in its registry"]
    assert not [seen for seen in cloud.requests if seen.path.startswith("/v2/")]


def test_what_a_backend_cannot_run_is_a_fault_only_where_no_other_can(backend_of, code):
    vertex, compute = backend_of("vertex"), backend_of("compute")
    spec = {"entry": code, "gpu": "L4:1", "max_restarts": 9}  # Vertex AI starts a job again 6 times
    alone = Trainer(vertex).doctor(**spec)
    assert not alone.is_ok
    assert {fault.subject for fault in alone.faults} == {f"{code} as asked"}
    both = Trainer([vertex, compute]).doctor(**spec)
    assert not [fault for fault in both.faults if fault.backend == "vertex"]
    assert any(check.why.startswith("left out: ") for check in both)


def test_all_faults_stand_in_one_report(cloud, backend_of, code):
    cloud.enable_api("logging", enabled=False)
    cloud.add_bucket("far-bucket", location="europe-west4")
    cloud.world.part(Accounts).missing.add("gputrain@my-project.iam.gserviceaccount.com")
    held = {"resourcemanager.projects.get", "serviceusage.services.get", "storage.buckets.list"}
    vertex = backend_of("vertex", held, bucket="gs://far-bucket", service_account=None)
    compute = backend_of("compute", bucket="gs://gone", service_account=None, network="gone")
    faults = [
        fault for one in (vertex, compute)
        for fault in Trainer(one).doctor(code, gpu="H100:8", image=f"{IMAGE}:cu117").faults
    ]  # fmt: skip
    subjects = {(fault.backend, fault.subject) for fault in faults}
    assert subjects >= {
        ("vertex", "logging.googleapis.com"),
        ("vertex", "aiplatform.customJobs.create"),
        ("vertex", "storage.objects.create"),
        ("vertex", "bucket gs://far-bucket"),
        ("vertex", f"image {IMAGE}:cu117"),
        ("compute", "bucket gs://gone"),
        ("compute", "service account gputrain@my-project.iam.gserviceaccount.com"),
        ("compute", "network gone"),
        ("compute", f"image {IMAGE}:cu117"),
        ("compute", f"image {IMAGE}:cu117 in its registry"),
    }
    assert all(fault.fix for fault in faults)
