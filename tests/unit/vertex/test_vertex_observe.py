"""A custom job from its create to its end: what is refused, what a look shows, where it may be restarted."""

import pytest

from gputrain import Trainer
from gputrain.errors import JobFailedError
from gputrain.lifecycle import State
from gputrain_emulator.vertex.states import Fate
from tests.unit.vertex.runs import REGIONS


def test_an_image_as_it_is_ends_by_the_job_and_cloud_logging(trainer, cloud, vertex, made):
    cloud.add_image("us-docker.pkg.dev/my-project/train/image:1")
    fields = {"image": "us-docker.pkg.dev/my-project/train/image:1", "gpu": "L4:2"}
    job = trainer().submit(**fields)
    vertex.write_log(made()[0], "workerpool0-0", "epoch 1")
    assert job.wait() is State.SUCCEEDED
    assert "epoch 1" in [line.message for line in job.logs()]
    vertex.set_fate(Fate(exits=(7,), run_s=60))
    with pytest.raises(JobFailedError, match="status of 7"):
        trainer().submit(**fields).result()


def test_a_job_that_waits_tells_what_only_the_service_log_explains(submit, cloud, vertex):
    vertex.set_stock("g2-standard-24", 0, region="us-central1")
    job = submit(provisioning_model="flex-start", max_wait_duration="5h")
    assert job.refresh().detail == "pending"  # no call is spent on what mostly passes
    cloud.clock.advance(61)
    assert job.refresh().detail == "pending: Resources are insufficient in region: us-central1"
    assert {job.refresh().detail for _ in range(5)} == {job.detail}
    assert sum(one.method == "logging.entries.list" for one in cloud.requests) == 1
    vertex.set_stock("g2-standard-24", 9, region="us-central1")
    cloud.clock.advance(1000)
    assert job.refresh().detail == "succeeded"


def test_empty_logs_name_the_role_that_the_account_lacks(submit, cloud, vertex):
    vertex.deaf_accounts.add("train@my-project.iam.gserviceaccount.com")
    vertex.set_fate(Fate(exits=(1,), run_s=60))
    job = submit()
    cloud.clock.advance(1000)
    with pytest.raises(JobFailedError, match=r"roles/logging\.logWriter"):
        job.result(timeout=0)


def test_a_job_is_made_with_the_code_that_was_uploaded(submit, cloud, made):
    job = submit()
    assert job.state is State.QUEUED
    (only,) = made()
    assert only.document["labels"]["gputrain-job"] == job.id
    assert only.document["displayName"].startswith(job.id)
    uploaded = [one.name for one in cloud.storage.objects.walk("my-bucket") if one.name.startswith("code/")]
    (argument,) = only.document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert [name in argument for name in uploaded] == [True]


BOARD = "projects/my-project/locations/us-central1/tensorboards/1"


def test_a_running_job_tells_its_terminal_and_its_curves(make, cloud, vertex, code):
    vertex.tensorboards[BOARD] = "Losses"
    trainer = Trainer(make(enable_web_access=True, tensorboard=BOARD))
    job = trainer.submit(f"{code}/train.py", gpu="L4:1")
    assert "https" not in job.refresh().detail
    while job.refresh().state is not State.RUNNING:
        cloud.clock.advance(2)
    word, terminal, board = job.refresh().detail.split("; ")
    assert word == "running"
    assert terminal.startswith("terminal of workerpool0-0: https://")
    number = terminal.partition("https://")[2].partition("-")[0]
    assert board == (
        "TensorBoard: https://us-central1.tensorboard.googleusercontent.com/experiment/"
        f"{BOARD.replace('/', '+')}+experiments+{number}"
    )
    while not job.refresh().state.is_terminal:
        cloud.clock.advance(5)
    assert "https" not in job.detail


@pytest.fixture
def full(vertex):
    """The first region has no machines."""
    vertex.set_stock("g2-standard-24", 0, region="us-central1")


def wait(job, cloud, *, until, rounds=100):
    """What a waiting client does: look, take the next step where that is left to it, and let time pass."""
    for _ in range(rounds):
        job.refresh()
        job.supervise()
        if job.state is until:
            return
        cloud.clock.advance(30)
    raise AssertionError(job)


def places(made):
    return [job.region for job in made()]


def test_a_process_with_another_account_makes_nothing_and_says_with_which_it_would(
    full, submit, trainer, cloud, made, caplog
):
    job = submit(trainer(regions=REGIONS))
    other = trainer(regions=REGIONS, service_account="else@my-project.iam.gserviceaccount.com")
    cloud.clock.advance(1000)
    watched = other.attach(job.uri)
    watched.refresh()
    assert not watched.supervise()
    assert "service_account='train@my-project.iam.gserviceaccount.com'" in caplog.text
    assert places(made) == ["us-central1"]
    wait(job, cloud, until=State.SUCCEEDED)
