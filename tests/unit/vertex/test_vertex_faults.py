"""Whatever is wrong: the right error, with what to do now, and nothing made; once it is mended, one job."""

from dataclasses import replace

import pytest

from gputrain.errors import (
    ApiDisabledError,
    CapacityError,
    JobFailedError,
    NoFitError,
    NoPlacementError,
    PermissionDeniedError,
    QuotaExceededError,
    RequestError,
    SpecError,
    TransientError,
)
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import State, states

CREATE = "aiplatform.customJobs.create"
METRIC = "custom_model_training_nvidia_l4_gpus"
UNKNOWN = 'Machine type "g2-standard-24" is not supported in region us-central1.'


def refuse(cloud, status, message, **more):
    cloud.fail(CREATE, faults.Refuse(error=ApiError(status, message, **more)), times=None)


def steal_bucket(cloud, vertex):
    cloud.add_project("somebody-else")
    cloud.world.part(Storage).add_bucket("their-bucket", project="somebody-else")


def limit(number):
    def arrange(cloud, vertex):
        vertex.settings = replace(vertex.settings, refuse_over_quota=True)
        vertex.set_limit(METRIC, number, region="us-central1")

    return arrange


# what is wrong: how the backend is made, what is arranged, the error, a word of what to do now
WRONG = {
    "the project": ({"project": "no-such-project"}, None, (RequestError, PermissionDeniedError), "project"),
    "a region that there is not": ({"region": "us-central9"}, None, (NoFitError, RequestError), "region"),
    "a zone for a region": ({"region": "us-central1-a"}, None, SpecError, "region"),
    "a bucket that there is not": ({"bucket": "gs://not-there"}, None, RequestError,
     "gcloud storage buckets"),
    "no bucket": ({"bucket": None}, None, RequestError, "bucket='gs://my-bucket'"),
    "a bucket of somebody else": ({"bucket": "gs://their-bucket"}, steal_bucket, PermissionDeniedError,
     "own"),
    "a bucket in another region": ({"bucket": "gs://far-bucket"}, lambda cloud,
     _: cloud.add_bucket("far-bucket", location="europe-west4"), RequestError,
     "europe-west4 first in regions"),
    "an API that is off": ({}, lambda cloud, _: cloud.enable_api("aiplatform", enabled=False),
     ApiDisabledError, "gcloud services enable aiplatform.googleapis.com"),
    "an account that may not be acted as": ({}, lambda _,
     vertex: vertex.forbidden_accounts.add("train@my-project.iam.gserviceaccount.com"),
     PermissionDeniedError, "train@my-project"),
    "no quota": ({}, limit(0), QuotaExceededError, "quota"),
    "too little quota": ({}, limit(1), QuotaExceededError, "quota"),
    "a full region": ({}, lambda cloud, _: refuse(cloud, 429,
     "Resources are insufficient in region: us-central1."), (CapacityError, NoPlacementError), "region"),
    "a machine that is not there": ({}, lambda cloud, _: refuse(cloud, 400, UNKNOWN), (CapacityError,
     NoPlacementError, RequestError), "region"),
    "a service that is down": ({}, lambda cloud, _: cloud.fail(CREATE, faults.server_error(503),
     times=None), TransientError, "same key"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_with_what_to_do_and_nothing_is_made(submit, trainer, cloud, vertex, what):
    settings, arrange, kinds, words = WRONG[what]
    if arrange is not None:
        arrange(cloud, vertex)
    with pytest.raises(kinds) as caught:
        submit(trainer(**settings))
    error = caught.value
    told = f"{error} {error.fix} {' '.join(fault.fix for fault in getattr(error, 'faults', ()))}"
    assert words in told, told
    assert error.fix or getattr(error, "faults", ()), told
    assert vertex.jobs == {}
    assert "traceback" not in told.lower()


def test_an_image_that_cannot_be_pulled_says_who_pulls(submit, cloud, vertex):
    vertex.settings = replace(vertex.settings, error_delay_s=1.0)
    job = submit()
    (theirs,) = vertex.jobs.values()
    vertex.put(theirs, State.FAILED, states.image_denied("projects/p/r"))
    cloud.clock.advance(100)
    with pytest.raises(JobFailedError, match=r"artifactregistry\.reader") as failed:
        job.result()
    assert failed.value.kind == "image"
    assert "gcp-sa-aiplatform-cc" in failed.value.fix
