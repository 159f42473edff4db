"""Asking for more quota: shown first, filed once, followed to its end."""

import pytest
import requests
from google.cloud import cloudquotas_v1

from gputrain.catalog import Service
from gputrain.errors import ApiDisabledError, QuotaExceededError, RequestError, SpecError
from gputrain.quota import IncreaseState, request_increase
from gputrain.quota.reader import Reader
from gputrain_emulator.cloudquotas import Preferences
from gputrain_emulator.faults import DropAfterCommit
from tests.unit.quota.conftest import FAMILY, REGION, standing

CREATE = "cloudquotas.quotaPreferences.create"
ME = "me@example.com"
WHY = "two nodes of H100 for a week"
L4 = "NVIDIA-L4-GPUS-per-project-region"


@pytest.fixture
def ask(cloud):
    """`request_increase` against the emulator."""

    def call(target, value=128, contact_email=ME, justification=WHY, **more):
        reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
        return request_increase(target, value, contact_email, justification, **reach, **more)

    return call


@pytest.fixture
def short(cloud, reader):
    """A standing that is short of on-demand L4s."""
    cloud.quota("NVIDIA_L4_GPUS", 8)
    return standing(reader.read(), "L4", 8, nodes=2)


def kept(cloud):
    return list(cloud.world.part(Preferences).kept.values())


def writes(cloud):
    return [one.method for one in cloud.requests if one.verb != "GET"]


def test_a_dry_run_shows_the_exact_preference_and_sends_nothing(cloud, ask, short):
    found = ask(short, 16)
    assert found.preference == {
        "service": "compute.googleapis.com",
        "quotaId": L4,
        "dimensions": {"region": REGION},
        "quotaConfig": {"preferredValue": "16", "annotations": {"gputrain-limit-before": "8"}},
        "contactEmail": ME,
        "justification": WHY,
    }
    assert (found.state, found.limit_now) == (IncreaseState.PREPARED, 8)
    assert writes(cloud) == []
    for words in (L4, ME, WHY, "nothing has been sent", REGION, "16"):
        assert words in str(found)
    assert "<table>" in found._repr_mimebundle_()["text/html"]


def test_what_is_shown_is_what_is_sent(cloud, ask, short):
    found = ask(short, 16)
    found.file()
    (sent,) = [one for one in cloud.requests if one.method == CREATE]
    body = requests.models.complexjson.loads(sent.body)
    assert body == found.preference
    assert sent.query["quotaPreferenceId"] == [found.name.rpartition("/")[2]]


def test_googles_own_client_reads_it_back(cloud, ask, short):
    filed = ask(short, 16, dry_run=False)
    client = cloudquotas_v1.CloudQuotasClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )
    read = client.get_quota_preference(name=filed.name)
    assert (read.quota_id, read.quota_config.preferred_value, read.reconciling) == (L4, 16, True)
    assert read.justification == WHY


def test_it_is_followed_from_review_to_grant(cloud, ask, short):
    filed = ask(short, 16, dry_run=False)
    assert filed.state is IncreaseState.REVIEWED
    assert filed.refresh().state is IncreaseState.REVIEWED
    cloud.clock.advance(3600)
    done = filed.refresh()
    assert (done.state, done.granted) == (IncreaseState.GRANTED, 16)
    assert "fulfilled" in done.detail


@pytest.mark.parametrize(
    ("most", "state", "granted"), [(12, IncreaseState.PARTLY, 12), (0, IncreaseState.DENIED, 8)]
)
def test_a_grant_in_part_and_a_denial_are_told_apart(cloud, ask, short, most, state, granted):
    cloud.world.part(Preferences).grant_up_to = most
    filed = ask(short, 16, dry_run=False)
    cloud.clock.advance(3600)
    assert (filed.refresh().state, filed.refresh().granted) == (state, granted)
    assert ask(short, 16, dry_run=False).state is state  # another process, another day


def test_twice_is_once(cloud, ask, short):
    first, second = ask(short, 16, dry_run=False), ask(short, 16, dry_run=False)
    assert first.name == second.name
    assert len(kept(cloud)) == 1
    assert second.state is IncreaseState.REVIEWED


def test_a_lost_reply_makes_no_second_request(cloud, ask, short):
    cloud.fail(CREATE, DropAfterCommit())
    filed = ask(short, 16, dry_run=False)
    assert filed.state is IncreaseState.REVIEWED
    assert len(kept(cloud)) == 1


def test_another_value_changes_the_one_there_is(cloud, ask, short):
    ask(short, 16, dry_run=False)
    ask(short, 32, dry_run=False)
    (only,) = kept(cloud)
    assert only["quotaConfig"]["preferredValue"] == "32"


def test_a_lost_reply_to_another_value_is_no_refusal(cloud, ask, short):
    ask(short, 16, dry_run=False)
    cloud.fail("cloudquotas.quotaPreferences.patch", DropAfterCommit())
    assert ask(short, 32, dry_run=False).preference["quotaConfig"]["preferredValue"] == "32"
    (only,) = kept(cloud)
    assert only["quotaConfig"]["preferredValue"] == "32"


def test_a_limit_of_millions_is_kept_to_the_last_one(cloud, ask, reader):
    cloud.quota("NVIDIA_L4_GPUS", 1_234_567)
    found = ask(standing(reader.read(), "L4", 8), 2_000_000)
    assert found.preference["quotaConfig"]["annotations"] == {"gputrain-limit-before": "1234567"}


def test_a_preference_that_somebody_else_named_is_taken_up(cloud, ask, short):
    client = cloudquotas_v1.CloudQuotasClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )
    client.create_quota_preference(
        request={
            "parent": f"projects/{cloud.project}/locations/global",
            "quota_preference_id": "by-hand",
            "quota_preference": {
                "service": "compute.googleapis.com",
                "quota_id": L4,
                "quota_config": {"preferred_value": 12},
                "dimensions": {"region": REGION},
                "contact_email": ME,
            },
        }
    )
    filed = ask(short, 16, dry_run=False)
    (only,) = kept(cloud)
    assert filed.name.endswith("/by-hand")
    assert only["quotaConfig"]["preferredValue"] == "16"
    cloud.clock.advance(3600)
    assert filed.refresh().state is IncreaseState.GRANTED


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("NOT_ENOUGH_USAGE_HISTORY", "use what there is"),
        ("NO_VALID_BILLING_ACCOUNT", "gcloud billing projects link"),
        ("NOT_SUPPORTED", "console.cloud.google.com"),
        ("OF_TOMORROW", "console.cloud.google.com"),
    ],
)
def test_what_google_would_not_take_is_said_before_and_not_sent(cloud, ask, short, reason, fix):
    cloud.world.part(Preferences).ineligible[L4] = reason
    assert f"no: {reason}" in str(ask(short, 16))
    with pytest.raises(RequestError, match=fix):
        ask(short, 16, dry_run=False)
    assert kept(cloud) == []


def test_families_are_named_by_their_dimension(cloud, ask, reader):
    cloud.quota(FAMILY, 0, family="NVIDIA_H100")
    filed = ask(standing(reader.read(), "H100", 8), 16, dry_run=False)
    assert filed.preference["dimensions"] == {"region": REGION, "gpu_family": "NVIDIA_H100"}
    assert filed.limit_now == 0
    cloud.clock.advance(3600 * 2)
    book = reader.read()
    assert standing(book, "H100", 8, nodes=2).verdict.value == "fits"
    assert standing(book, "H200", 8).deciding.limit == 64  # another family: nothing was asked for it


def test_the_project_wide_quota_has_no_dimensions(cloud, ask, reader):
    cloud.quota("GPUS_ALL_REGIONS", 0)
    found = ask(standing(reader.read(), "L4"), 8)
    assert "dimensions" not in found.preference
    assert found.preference["quotaId"] == "GPUS-ALL-REGIONS-per-project"


ERRORS = [
    (
        {"metric": "NVIDIA_L4_GPUS", "where": REGION},
        (L4, {"region": REGION}),
    ),
    (
        {"metric": "compute.googleapis.com/gpus_all_regions", "where": "global"},
        ("GPUS-ALL-REGIONS-per-project", None),
    ),
    (
        {
            "metric": "GPUS_PER_GPU_FAMILY",
            "limit_name": "GPUS-PER-GPU-FAMILY-per-project-region",
            "where": REGION,
            "dimensions": {"region": REGION, "gpu_family": "NVIDIA_H200"},
        },
        ("GPUS-PER-GPU-FAMILY-per-project-region", {"region": REGION, "gpu_family": "NVIDIA_H200"}),
    ),
    (
        {"metric": "aiplatform.googleapis.com/custom_model_training_nvidia_h100_gpus", "where": REGION},
        ("CustomModelTrainingH100GPUsPerProjectPerRegion", {"region": REGION}),
    ),
]


@pytest.mark.parametrize(("facts", "named"), ERRORS, ids=[facts["metric"] for facts, _ in ERRORS])
def test_the_error_that_a_job_met_is_enough(cloud, ask, facts, named):
    found = ask(QuotaExceededError("too small", **facts), 1024, project=cloud.project)
    assert (found.preference["quotaId"], found.preference.get("dimensions")) == named


def test_an_error_does_not_say_whose_quota_it_is(ask):
    with pytest.raises(RequestError, match="project="):
        ask(QuotaExceededError("too small", metric="NVIDIA_L4_GPUS", where=REGION))


def test_a_quota_that_there_is_not_is_said_by_name(cloud, ask):
    with pytest.raises(RequestError, match="nvidia_l5_gpus"):
        ask(QuotaExceededError("too small", metric="NVIDIA_L5_GPUS", where=REGION), project=cloud.project)


def test_a_value_that_is_no_more_is_refused(ask, short):
    with pytest.raises(RequestError, match="8 is not more"):
        ask(short, 8)


def test_every_fault_of_the_arguments_is_told_at_once(ask, short):
    with pytest.raises(SpecError) as caught:
        ask(short, 0, contact_email="nobody")
    assert [fault.field for fault in caught.value.faults] == ["value", "contact_email"]


def test_an_api_that_is_off_says_so(cloud, ask, short):
    cloud.enable_api("cloudquotas", enabled=False)
    with pytest.raises(ApiDisabledError, match="gcloud services enable"):
        ask(short, 16)


def test_a_standing_of_vertex_ai_asks_vertex_ai(cloud, ask, access):
    book = Reader(access(), Service.VERTEX).read()
    found = ask(standing(book, "H100", 8, "spot", nodes=16), 128)
    assert found.preference["service"] == "aiplatform.googleapis.com"
    assert found.preference["quotaId"] == "CustomModelTrainingPreemptibleH100GPUsPerProjectPerRegion"


def test_nothing_can_be_asked_for_what_counts_against_no_quota(ask, reader):
    with pytest.raises(RequestError, match="when it was made"):
        ask(standing(reader.read(), "GB200", 4, "reservation-bound"))
