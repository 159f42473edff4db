"""Every documented failure, in the words that the emulator has for it, is read as the table says."""

import pytest

from gputrain.backends.compute.calls import Calls, error_of
from gputrain.errors import CapacityError
from gputrain.google import operation_error, to_error
from gputrain.google.errors import body_error
from gputrain_emulator.errors import Style
from gputrain_emulator.failures import LIST, ROWS, VERTEX_ROWS, WIRE, fault
from tests.each import each
from tests.support.clouds import client

REGION, ZONE = "us-central1", "us-central1-a"
NAMES = {"project": "my-project", "number": "123456789012", "zone": ZONE, "region": REGION, "name": "vm-1"}

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
TRAINING = "aiplatform.googleapis.com/custom_model_training"
ACT_AS = {
    "permission": "iam.serviceAccounts.actAs",
    "service_account": "trainer@my-project.iam.gserviceaccount.com",
}
FACTS = {
    "C02": {"place": ZONE, "zones_available": ()},
    "C02a": {"zones_available": ("us-central1-b", "us-central1-f")},
    "C06": {"metric": "GPUS_ALL_REGIONS", "limit": 0.0, "where": "global",
            "limit_name": "GPUS-ALL-REGIONS-per-project", "future_limit": None},
    "C06a": {"metric": "GPUS_PER_GPU_FAMILY", "limit": 16.0, "future_limit": 32.0, "where": REGION,
             "dimensions": {"gpu_family": "NVIDIA_H100", "region": REGION}},
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
    "V01": {"metric": f"{TRAINING}_nvidia_l4_gpus", "limit": None, "where": REGION},
    "V01a": {"metrics": (f"{TRAINING}_cpus", f"{TRAINING}_nvidia_l4_gpus")},
    "V04": {"place": REGION, "is_lasting": True},
    "V03": {"metric": "aiplatform.googleapis.com/job_writes"},
    "V07": ACT_AS,
    "V08": {"permission": "aiplatform.customJobs.create"},
    "V09": {"api": "aiplatform.googleapis.com"},
}  # fmt: skip
CASES = [row for row, failure in {**ROWS, **VERTEX_ROWS}.items() if failure.where not in (LIST, WIRE)]


def told(row):
    """The error that a row becomes where it is the answer to a create."""
    made = fault(row, **NAMES)
    if hasattr(made, "errors"):
        details = operation_error(made.errors[0], status=made.http_status or 0, place=ZONE)
    else:
        style = Style.PLATFORM if row in VERTEX_ROWS else Style.COMPUTE
        place = REGION if row in VERTEX_ROWS else ZONE
        details = body_error(made.error.body(style), status=made.error.status, place=place)
    return to_error(details, "create the VM", project="my-project")


@each("case", CASES)
def test_each_row_is_told_in_googles_words_with_what_to_do(case):
    error = told(case)
    assert error.kind == EXPECTED[case]
    assert {**ROWS, **VERTEX_ROWS}[case].message.format(**NAMES) in error.why
    assert error.fix
    assert error.raw
    facts = FACTS.get(case, {})
    assert {name: getattr(error, name) for name in facts} == facts


def test_a_fix_can_be_pasted():
    assert told("C06").fix.endswith("https://console.cloud.google.com/iam-admin/quotas?project=my-project")
    assert "gcloud services enable compute.googleapis.com --project my-project;" in told("C27").fix
    assert " add-iam-policy-binding trainer@my-project.iam.gserviceaccount.com --member " in told("C28").fix
    assert "compute.instances.create" in told("C26").fix
    assert told("C02a").why.endswith("(Google has some in us-central1-b and us-central1-f)")
    assert told("C06").why.endswith("(a limit of 0 never clears by waiting)")
    assert told("C06a").why.endswith("(a rise from 16 to 32 is under way)")


@pytest.mark.parametrize("row", [row for row, failure in ROWS.items() if failure.where == LIST])
def test_an_incomplete_list_says_so_and_concludes_nothing(cloud, row):
    calls = Calls(access=client(cloud))
    for method, listed in (
        ("list", lambda: calls.instances(ZONE, "")),
        ("aggregatedList", lambda: calls.all_instances("")),
    ):
        cloud.fail(f"compute.instances.{method}", row)
        assert ROWS[row].code in " ".join(listed().missing)
        assert not listed().missing


def test_an_operation_that_failed_by_its_status_alone_sends_the_job_on():
    """dstackai/dstack#488, read 2026-11-23."""
    ended = {"status": "DONE", "httpErrorStatusCode": 503, "httpErrorMessage": "SERVICE UNAVAILABLE"}
    error = error_of(ended, "create the VM", zone=ZONE)
    assert isinstance(error, CapacityError)
    assert "SERVICE UNAVAILABLE" in str(error)
    assert error.try_elsewhere
