"""Exactly one job: whatever is lost, repeated, or done twice at once."""

import pytest

from gputrain.errors import (
    ApiDisabledError,
    PermissionDeniedError,
    RequestError,
)
from gputrain.lifecycle import State

CREATE = "aiplatform.customJobs.create"


def test_a_job_is_made_with_the_code_that_was_uploaded(submit, cloud, made):
    job = submit()
    assert job.state is State.QUEUED
    (only,) = made()
    assert only.document["labels"]["gputrain-job"] == job.id
    assert only.document["displayName"].startswith(job.id)
    uploaded = [one.name for one in cloud.storage.objects.walk("my-bucket") if one.name.startswith("code/")]
    (argument,) = only.document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert [name in argument for name in uploaded] == [True]


def test_an_api_that_is_off_is_told_with_the_command_that_turns_it_on(submit, cloud):
    cloud.enable_api("aiplatform", enabled=False)
    with pytest.raises(ApiDisabledError) as caught:
        submit()
    assert caught.value.api == "aiplatform.googleapis.com"
    assert "gcloud services enable aiplatform.googleapis.com" in caught.value.fix


def test_a_missing_permission_is_named(submit, trainer, cloud):
    objects = {f"storage.objects.{verb}" for verb in ("get", "create", "delete", "list")}
    may = {"storage.buckets.list", "aiplatform.customJobs.list", "aiplatform.customJobs.get", *objects}
    poor = cloud.caller("poor@example.com", permissions=may)
    with pytest.raises(PermissionDeniedError) as caught:
        submit(trainer(credentials=cloud.credentials_of(poor)))
    assert caught.value.permission == CREATE


def test_no_bucket_says_how_to_name_one(submit, trainer):
    with pytest.raises(RequestError, match="bucket='gs://my-bucket'"):
        submit(trainer(bucket=None))
