"""Every documented bad end of a job of Vertex AI's, made by the emulator, is told with what to do."""

import pytest

from gputrain.causes import CAUSES
from gputrain.errors import JobFailedError, Scope
from gputrain.trainer import Trainer
from gputrain_emulator.vertex.states import Ending, Fate, State as Theirs

REGION = "us-central1"
ACCOUNT = "train@my-project.iam.gserviceaccount.com"
SHORT = (
    "The following quota metrics exceed quota limits: "
    "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
)
ENDLESS = Fate(run_s=float("inf"))


def reclaimed_for_good(vertex, job):
    for _ in range(vertex.settings.spot_restarts + 1):
        vertex.world.clock.advance(200)
        vertex.preempt(job.name)


def failed_internally_for_good(vertex, job):
    for _ in range(vertex.settings.job_attempts):
        vertex.world.clock.advance(100)
        vertex.fail_internally(job.name)


def image_denied(vertex, job):
    vertex.put(job.name, Theirs.FAILED, job.life.endings.image_denied("projects/p/repo"))


def failed_with(code, message):
    return lambda vertex, job: vertex.put(job.name, Theirs.FAILED, Ending(code=code, message=message))


def nothing(vertex, job):
    pass


# row -> (fate of the job, what befalls it, Google's words, the kind)
ROWS = {
    "V11": (Fate(exits=(1,), run_s=60), nothing, "exited with a non-zero status of 1.", "exit"),
    "V11, 127": (Fate(exits=(127,), run_s=60), nothing, "exited with a non-zero status of 127.", "command"),
    "V12": (Fate(exits=(137,), run_s=60), nothing, "Replicas low on memory: workerpool0.", "out_of_memory"),
    "V13": (Fate(), nothing, f"Resources are insufficient in region: {REGION}. ", "stockout_region"),
    "V14": (ENDLESS, reclaimed_for_good, "Resources are insufficient in region: ", "stockout_region"),
    "V15": (
        ENDLESS,
        failed_internally_for_good,
        "Internal error occurred for the current attempt",
        "internal",
    ),
    "V16": (ENDLESS, image_denied, 'denied: Permission "artifactregistry.repositories.down', "image"),
    "V01, late": (ENDLESS, failed_with(8, SHORT), SHORT, "quota_region"),
    "of tomorrow": (ENDLESS, failed_with(2, "New trouble."), "New trouble.", "unknown"),
}


@pytest.fixture
def submit(make, code):
    def build(**fields):
        return Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2", **fields)

    return build


def only(vertex):
    (job,) = vertex.jobs.values()
    return job


@pytest.mark.parametrize("row", ROWS)
def test_each_bad_end_is_told_as_what_it_is(submit, cloud, vertex, row):
    fate, befalls, words, kind = ROWS[row]
    vertex.set_fate(fate)
    if row == "V13":
        vertex.set_stock("g2-standard-24", 0, region=REGION)
    job = submit(provisioning_model="spot" if row == "V14" else "standard")
    if befalls is not nothing:
        cloud.clock.advance(100)
        befalls(vertex, only(vertex))
    cloud.clock.advance(2000)
    with pytest.raises(JobFailedError) as caught:
        job.result(timeout=0)
    error = caught.value
    assert (error.kind, error.scope, error.retryable, error.try_elsewhere) == (kind, Scope.JOB, False, False)
    assert words in error.why
    assert CAUSES[kind].title in str(error)
    assert CAUSES[kind].fix in error.fix


def test_v19_empty_logs_name_the_role_that_the_account_lacks(submit, cloud, vertex):
    vertex.deaf_accounts.add(ACCOUNT)
    vertex.set_fate(Fate(exits=(1,), run_s=60))
    job = submit()
    cloud.clock.advance(1000)
    with pytest.raises(JobFailedError, match=r"roles/logging\.logWriter"):
        job.result(timeout=0)
