"""Asking for more quota: shown first, filed once, followed to its end."""

import pytest
import requests

from gputrain.errors import ApiDisabledError, QuotaExceededError, RequestError, SpecError
from gputrain.quota import IncreaseState, request_increase
from gputrain_emulator.cloudquotas import Preferences
from gputrain_emulator.faults import DropAfterCommit
from tests.unit.quota.conftest import REGION, standing

FILE = "cloudquotas.quotaPreferences.patch"
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
    (sent,) = [one for one in cloud.requests if one.method == FILE]
    body = requests.models.complexjson.loads(sent.body)
    assert body == found.preference
    assert sent.path.endswith(found.name.rpartition("/")[2])


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


def test_a_lost_reply_makes_no_second_request(cloud, ask, short):
    cloud.fail(FILE, DropAfterCommit())
    filed = ask(short, 16, dry_run=False)
    assert filed.state is IncreaseState.REVIEWED
    assert len(kept(cloud)) == 1


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


def test_every_fault_of_the_arguments_is_told_at_once(ask, short):
    with pytest.raises(SpecError) as caught:
        ask(short, 0, contact_email="nobody")
    assert [fault.field for fault in caught.value.faults] == ["value", "contact_email"]


def test_an_api_that_is_off_says_so(cloud, ask, short):
    cloud.enable_api("cloudquotas", enabled=False)
    with pytest.raises(ApiDisabledError, match="gcloud services enable"):
        ask(short, 16)
