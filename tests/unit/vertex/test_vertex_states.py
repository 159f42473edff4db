# ruff: noqa: E501, ISC004  # one case a line
"""Vertex AI's states and words, as ours."""

from datetime import datetime, timedelta, timezone

import attrs
import pytest

from gputrain.backends.vertex.states import STATES, SeenJob, failure_of, state_of
from gputrain.lifecycle import State
from tests.each import each

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
SEEN = SeenJob(
    resource="projects/1/locations/us-central1/customJobs/7", job_id="a-1", state="JOB_STATE_RUNNING"
)


def test_the_table_knows_every_state_of_the_client_and_no_other():
    from google.cloud.aiplatform_v1.types import JobState

    assert set(STATES) == {state.name for state in JobState}


@pytest.mark.parametrize("word", ["JOB_STATE_CANCELLED", "JOB_STATE_FAILED"])
def test_a_job_stopped_at_its_limit_has_expired_whatever_the_word(word):
    seen = attrs.evolve(
        SEEN, state=word, timeout=timedelta(hours=1), started_at=NOON, ended_at=NOON + timedelta(hours=1)
    )
    assert state_of(seen) is State.EXPIRED
    early = attrs.evolve(seen, ended_at=NOON + timedelta(minutes=59))
    assert state_of(early) is STATES[word]


SAID = [
    ("service-7@gcp-sa-aiplatform-cc.iam.gserviceaccount.com does not have storage.objects.get access to the bucket.",
     ("job_permission", None, None)),
    ("The replica workerpool0-0 exited with a non-zero status of 1. To find out more about why your job exited "
     "please check the logs: https://x", ("exit", 0, 1)),
    ("The replica workerpool1-3 exited with a non-zero status of 127. ", ("command", 4, 127)),
    ("The replica workerpool2-0 exited with a non-zero status of 1.", ("exit", None, 1)),  # a reduction server
    ("The replica workerpool0-0 exited with a non-zero status of 64.", ("environment", 0, 64)),
    ("The replica workerpool0-0 exited with a non-zero status of 139.", ("crashed", 0, 139)),
    ("The replica workerpool1-0 exited with a non-zero status of 137.", ("out_of_memory", 1, 137)),
    ("Replicas low on memory: workerpool0. To find out more", ("out_of_memory", None, 137)),
    ("The replica workerpool0-0 ran out of memory and exited with a non-zero status of 9.",
     ("out_of_memory", None, 137)),
    ("Resources are insufficient in region: us-central1. Please try a different region.", ("stockout_region", None, None)),
    ("The following quota metrics exceed quota limits: aiplatform.googleapis.com/x", ("quota_region", None, None)),
    ("Internal error occurred for the current attempt", ("internal", None, None)),
    ('denied: Permission "artifactregistry.repositories.downloadArtifacts" denied on resource "r"',
     ("image", None, None)),
    ("Field: master_config.image_uri Error: Failed to read the container uri [gcr.io/ftc-ml-13312/object_detection:"
     "2021_11_25]. Please make sure that the image exists", ("image", None, None)),
    ("words that nobody has seen", ("unknown", None, None)),
    ("", ("unknown", None, None)),
    ("The replica workerpool0-1 exited with a non-zero status of 1. Failed to read image /data/x.jpg", ("exit", 1, 1)),
]  # fmt: skip


@each(("words", "meaning"), SAID)
def test_vertex_ais_words_mean_this(words, meaning):
    failure = failure_of(words)
    assert (failure.kind, failure.node_rank, failure.exit_code) == meaning
    assert failure.message
    assert "To find out more" not in failure.message
