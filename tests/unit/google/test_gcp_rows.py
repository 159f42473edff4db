"""Every documented failure, made by the emulator on the wire, is told as the book of failures says."""

import pytest

import gputrain_emulator
from gputrain import errors
from gputrain.backends.compute.calls import Calls, errors_of, raise_first
from gputrain.backends.vertex.api import JobService
from gputrain.errors import GputrainError
from gputrain.google import GoogleClient
from gputrain_emulator.failures import LIST, ROWS, VERTEX_ROWS
from tests.each import each

REGION, ZONE = "us-central1", "us-central1-a"
BODY = {
    "machineType": f"zones/{ZONE}/machineTypes/e2-standard-4",
    "disks": [
        {
            "boot": True,
            "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
        }
    ],
    "networkInterfaces": [{"network": "global/networks/default"}],
}
JOB = {
    "displayName": "train",
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {
                    "machineType": "g2-standard-24",
                    "acceleratorType": "NVIDIA_L4",
                    "acceleratorCount": 2,
                },
                "replicaCount": "1",
                "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/train:1"},
            }
        ]
    },
}

TOLD_AS = {
    "stockout": "C01 C02 C02a C03a C03b C04",
    "stockout_region": "C03",
    "gang_incomplete": "C05",
    "quota_project": "C06",
    "quota_region": "C06a C06b C07 V01 V01a",
    "rate": "C08 V03 V03a",
    "concurrency": "C09",
    "daily_limit": "C08d",
    "source_busy": "C10",
    "not_ready": "C11",
    "not_in_zone": "C12 C12b C16 C30",
    "image_missing": "C12a",
    "reclaimed": "C13 C14",
    "live_migration": "C15",
    "gpu_misfit": "C17 V05 V06 V06a",
    "disk_misfit": "C18 C19a",
    "disk_too_small": "C19",
    "subnet_missing": "C20",
    "name_taken": "C21",
    "in_use": "C22 C22a",
    "changed": "C23 C23a C23b",
    "org_policy": "C24 C24a C24b",
    "org_policy_location": "C24c",
    "reservation_full": "C25 C25c C25f",
    "reservation_unusable": "C25a C25d C25e",
    "reservation_not_ready": "C25b",
    "permission": "C26 V08",
    "api_disabled": "C27 V09",
    "act_as": "C28 V07",
    "service_account_missing": "C29",
    "addresses_exhausted": "C31",
    "service_agent": "C31a",
    "network_elsewhere": "C32",
    "credentials_refused": "C33",
    "credentials_scope": "C34",
    "unclear": "C35 C35a C35b C36",
    "not_in_region": "V04",
    "bucket_location": "V10",
}
EXPECTED = {row: kind for kind, rows in TOLD_AS.items() for row in rows.split()}
LISTS = [row for row, failure in ROWS.items() if failure.where == LIST]

ACT_AS = {
    "permission": "iam.serviceAccounts.actAs",
    "service_account": "trainer@my-project.iam.gserviceaccount.com",
}
FACTS = {
    "C02": {"place": ZONE, "zones_available": ()},
    "C02a": {"zones_available": ("us-central1-b", "us-central1-f")},
    "C06": {
        "metric": "GPUS_ALL_REGIONS",
        "limit": 0.0,
        "where": "global",
        "limit_name": "GPUS-ALL-REGIONS-per-project",
        "future_limit": None,
    },
    "C06a": {
        "metric": "GPUS_PER_GPU_FAMILY",
        "limit": 16.0,
        "future_limit": 32.0,
        "where": REGION,
        "dimensions": {"gpu_family": "NVIDIA_H100", "region": REGION},
    },
    "C06b": {"metric": "PREEMPTIBLE_NVIDIA_L4_GPUS", "limit": 0.0, "where": REGION},
    "C07": {"metric": "CPUS", "limit": 24.0, "where": REGION},
    "C08": {"metric": "Queries"},
    "C08d": {"metric": "Queries"},
    "C01": {"place": ZONE, "is_lasting": False},
    "C12": {"place": ZONE, "is_lasting": True},
    "C16": {"place": ZONE, "is_lasting": True},
    "C30": {"place": ZONE, "is_lasting": True},
    "C32": {"is_lasting": True},
    "C24": {"constraint": "constraints/compute.vmExternalIpAccess"},
    "C24c": {"constraint": "constraints/gcp.resourceLocations"},
    "C26": {"permission": "compute.instances.create"},
    "C27": {"api": "compute.googleapis.com"},
    "C28": ACT_AS,
    "C29": {"permission": "", "service_account": ACT_AS["service_account"]},
    "V01": {
        "metric": "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",
        "limit": None,
        "where": REGION,
    },
    "V01a": {
        "metrics": (
            "aiplatform.googleapis.com/custom_model_training_cpus",
            "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",
        )
    },
    "V04": {"place": REGION, "is_lasting": True},
    "V03": {"metric": "aiplatform.googleapis.com/job_writes"},
    "V07": ACT_AS,
    "V08": {"permission": "aiplatform.customJobs.create"},
    "V09": {"api": "aiplatform.googleapis.com"},
}


@pytest.fixture(scope="module")
def cloud():
    with gputrain_emulator.start() as running:
        yield running
        assert not running.dispatcher.failures


@pytest.fixture(scope="module")
def access(cloud):
    return GoogleClient(
        project="my-project",
        credentials=cloud.credentials,
        endpoints=cloud.endpoints,
        sleep=cloud.clock.advance,
        now=cloud.clock.now,
    )


@pytest.fixture(scope="module")
def told(cloud, access):
    """What each row is told as: of Compute Engine and of Vertex AI."""
    found = {}
    calls = Calls(access=access)
    for row, failure in ROWS.items():
        if failure.where != LIST:
            order = cloud.fail("compute.instances.insert", row, times=None)
            found[row] = caught(lambda row=row: insert(calls, row.lower()))
            order.cancel()
    for row in VERTEX_ROWS:
        order = cloud.fail("aiplatform.customJobs.create", row, times=None)
        found[row] = caught(lambda: JobService(access=access).create(REGION, JOB))
        order.cancel()
    return found


def caught(call):
    with pytest.raises(GputrainError) as raised:
        call()
    return raised.value


def insert(calls, name):
    """The one write, as a gang makes it."""
    request = f"11111111-1111-4111-8111-{int.from_bytes(name.encode()):012d}"
    operation = calls.start(ZONE, "insert", {"name": f"vm-{name}", **BODY}, request)
    ended = calls.end_of(ZONE, operation)
    told = errors_of(ended) or tuple(ended["error"]["errors"])
    raise_first(told, {}, "create the VM", zone=ZONE, access=calls.access)


CASES = [*(row for row in ROWS if row not in LISTS), *VERTEX_ROWS]


@each("case", CASES)
def test_each_row_is_told_in_googles_words_with_what_to_do(told, cloud, case):
    error = told[case]
    assert error.kind == EXPECTED[case]
    number = cloud.world.projects[cloud.project].number
    said = {**ROWS, **VERTEX_ROWS}[case].message
    assert (
        said.format(project="my-project", number=number, zone=ZONE, region=REGION, name="instance-1")
        in error.why
    )
    assert error.fix
    assert error.raw
    for name, value in FACTS.get(case, {}).items():
        assert getattr(error, name) == value, name


def test_a_fix_can_be_pasted(told):
    assert told["C06"].fix.endswith("https://console.cloud.google.com/iam-admin/quotas?project=my-project")
    assert "gcloud services enable compute.googleapis.com --project my-project;" in told["C27"].fix
    assert " add-iam-policy-binding trainer@my-project.iam.gserviceaccount.com --member " in told["C28"].fix
    assert "compute.instances.create" in told["C26"].fix
    assert told["C02a"].why.endswith("(Google has some in us-central1-b and us-central1-f)")
    assert told["C06"].why.endswith("(a limit of 0 never clears by waiting)")
    assert told["C06a"].why.endswith("(a rise from 16 to 32 is under way)")


def test_only_what_passes_is_tried_again(cloud, access):
    calls, tries = Calls(access=access), {}
    for row in ("C01", "C07", "C17", "C26", "C08d", "C33", "C34"):
        order = cloud.fail("compute.instances.insert", row, times=None)
        caught(lambda row=row: insert(calls, f"x{row.lower()}"))
        tries[row] = order.struck
        order.cancel()
    assert tries.pop("C33") > 1  # google-auth asks for a new token before it gives up
    assert set(tries.values()) == {1}


@pytest.mark.parametrize("row", LISTS)
def test_an_incomplete_list_says_so_and_concludes_nothing(cloud, access, row):
    cloud.fail("compute.instances.list", row)
    listing = Calls(access=access).instances(ZONE, "")
    assert ROWS[row].code in " ".join(listing.missing)
    cloud.fail("compute.instances.aggregatedList", row)
    everywhere = Calls(access=access).all_instances("")
    assert ROWS[row].code in " ".join(everywhere.missing)
    assert not Calls(access=access).all_instances("").missing


def test_an_operation_that_failed_by_its_status_alone_sends_the_ladder_on(access):
    """dstackai/dstack#488, read 2026-11-23."""
    ended = {"status": "DONE", "httpErrorStatusCode": 503, "httpErrorMessage": "SERVICE UNAVAILABLE"}
    with pytest.raises(errors.CapacityError, match="SERVICE UNAVAILABLE") as caught:
        raise_first(errors_of(ended), ended, "create the VM", zone=ZONE, access=access)
    assert caught.value.try_elsewhere
