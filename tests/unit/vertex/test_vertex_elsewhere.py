"""A job that finds no machines in one region is made in the next, by whoever waits for it."""

import os
import signal

import attrs
import pytest

from gputrain.backends.base import JobRef
from gputrain.backends.vertex import VertexAI
from gputrain.gcp import Objects
from gputrain.lifecycle import State
from gputrain.trainer import Trainer, attach
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex.states import Fate

CREATE, LIST = "aiplatform.customJobs.create", "aiplatform.customJobs.list"
REGIONS = ["us-central1", "europe-west4", "asia-southeast1"]


@pytest.fixture
def submit(make, vertex, code):
    """Submits to regions whose first has no machines."""
    vertex.set_stock("g2-standard-24", 0, region="us-central1")

    def build(**settings):
        backend = make(**{"regions": REGIONS, **settings})
        return Trainer(backend).submit("train.py", source_dir=code, gpu="L4:2", idempotency_key="k")

    return build


def wait(job, cloud, *, until, rounds=100):
    """What a waiting client does: look, start again where that is left to it, and let time pass."""
    for _ in range(rounds):
        job.refresh()
        job.supervise()
        if job.state is until:
            return
        cloud.clock.advance(30)
    raise AssertionError(job)


def places(vertex):
    return [job.region for job in sorted(vertex.jobs.values(), key=lambda job: job.serial)]


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_the_next_region_takes_the_job(submit, cloud, vertex, transport):
    job = submit(transport=transport)
    wait(job, cloud, until=State.SUCCEEDED)
    assert places(vertex) == ["us-central1", "europe-west4"]


def test_the_look_between_says_where_it_goes(submit, cloud):
    job = submit()
    cloud.clock.advance(1000)
    seen = job.refresh()
    assert (seen.state, seen.failure) == (State.INTERRUPTED, None)
    assert seen.detail == (
        "us-central1: no room after all; the next place of the plan is asked: europe-west4"
    )


def test_it_is_the_same_job_but_for_its_output_folder(submit, cloud, vertex):
    job = submit()
    wait(job, cloud, until=State.RUNNING)
    first, second = (one.document for one in sorted(vertex.jobs.values(), key=lambda one: one.serial))
    assert first["labels"].pop("gputrain-gang") != second["labels"].pop("gputrain-gang")
    assert first["labels"] == second["labels"]
    assert first["jobSpec"].pop("baseOutputDirectory")
    assert "baseOutputDirectory" not in second["jobSpec"]
    assert first["jobSpec"] == second["jobSpec"]


def test_when_no_region_has_machines_it_has_failed(submit, cloud, vertex):
    for region in REGIONS:
        vertex.set_stock("g2-standard-24", 0, region=region)
    job = submit()
    wait(job, cloud, until=State.FAILED)
    assert job.refresh().failure.kind == "stockout_region"
    assert places(vertex) == REGIONS


def test_a_region_that_refuses_at_once_is_passed_over(submit, cloud, vertex):
    job = submit()
    cloud.clock.advance(1000)
    refusal = faults.Refuse(error=ApiError(400, 'Machine type "g2-standard-24" is not supported.'))
    cloud.fail("aiplatform.customJobs.create", refusal)
    wait(job, cloud, until=State.SUCCEEDED)
    assert places(vertex) == ["us-central1", "asia-southeast1"]


def test_two_who_wait_make_one_job(submit, make, cloud, vertex):
    job = submit()
    other = Trainer(make(regions=REGIONS)).attach(job.uri)
    cloud.clock.advance(1000)
    for one in (job, other):
        one.refresh()
    assert [one.resume() for one in (job, other)] == [True, False]
    assert places(vertex) == ["us-central1", "europe-west4"]
    for one in (job, other):
        wait(one, cloud, until=State.SUCCEEDED)


def test_one_who_looks_as_another_asks_elsewhere_is_not_told_that_it_failed(submit, make, cloud, vertex):
    job = submit()
    other = Trainer(make(regions=REGIONS)).attach(job.uri)
    cloud.clock.advance(1000)
    job.refresh()
    cloud.fail(LIST, faults.Stale(seconds=60), times=None)
    assert job.resume()
    seen = other.refresh()
    assert (seen.state, seen.detail) == (State.INTERRUPTED, "us-central1: europe-west4 is asked")
    assert not other.resume()
    wait(other, cloud, until=State.SUCCEEDED)
    assert places(vertex) == ["us-central1", "europe-west4"]


def test_one_whose_asker_died_before_the_next_region_heard_of_it_goes_on(submit, make, cloud, vertex):
    job, other = submit(), Trainer(make(regions=REGIONS))
    cloud.clock.advance(1000)
    job.refresh()

    def die(_seconds):
        raise SystemExit

    cloud.fail(CREATE, faults.DropBeforeCommit())
    object.__setattr__(job._backend._access, "sleep", die)
    with pytest.raises(SystemExit):
        job.resume()
    wait(other.attach(job.uri), cloud, until=State.SUCCEEDED)
    assert places(vertex) == ["us-central1", "europe-west4"]


def test_one_that_ran_elsewhere_and_was_deleted_by_hand_is_not_run_again(submit, make, cloud, vertex):
    wait(submit(), cloud, until=State.SUCCEEDED)
    (ran,) = [number for number, job in vertex.jobs.items() if job.region == "europe-west4"]
    del vertex.jobs[ran]
    cloud.clock.advance(3600)
    other = Trainer(make(regions=REGIONS))
    assert other.supervise() == []
    assert [job.state for job in other.jobs()] == [State.FAILED]
    assert places(vertex) == ["us-central1"]


@pytest.mark.parametrize("struck", [CREATE, "storage.objects.insert"])
def test_a_ctrl_c_as_it_is_asked_elsewhere_ends_the_watching_and_not_the_job(
    submit, make, cloud, vertex, struck
):
    job, other = submit(), Trainer(make(regions=REGIONS))
    cloud.clock.advance(1000)

    def press(document):
        os.kill(os.getpid(), signal.SIGINT)
        return document

    cloud.fail(struck, faults.Reshape(change=press))
    with pytest.raises(KeyboardInterrupt, match="the job goes on with whoever waits for it"):
        wait(job, cloud, until=State.RUNNING)
    found = other.attach(job.uri)
    assert found.state is State.INTERRUPTED
    wait(found, cloud, until=State.SUCCEEDED)
    assert "us-central1" not in places(vertex)[1:]


def test_any_process_follows_it_by_its_first_name(submit, make, cloud):
    job = submit()
    wait(job, cloud, until=State.RUNNING)
    assert Trainer(make(regions=REGIONS)).attach(job.uri).state is State.RUNNING


def for_ref(cloud, uri):
    """What `gputrain.attach` makes of a name: one region, no bucket."""
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    waits = {"sleep": cloud.clock.advance, "now": cloud.clock.now}
    return VertexAI.for_ref(JobRef.parse(uri), **reach, **waits)


def test_a_process_that_knows_only_the_name_finds_it_where_it_is(submit, cloud):
    job = submit()
    wait(job, cloud, until=State.RUNNING)
    seen = attach(job.uri, backend=for_ref(cloud, job.uri)).refresh()
    assert (seen.state, seen.place) == (State.RUNNING, "europe-west4")


def test_a_process_that_knows_only_the_name_watches_and_makes_nothing(submit, cloud, vertex):
    job = submit()
    other = attach(job.uri, backend=for_ref(cloud, job.uri))
    cloud.clock.advance(1000)
    seen = other.refresh()
    assert seen.state is State.INTERRUPTED
    assert seen.detail.endswith("whoever waits for it with its bucket asks the next place")
    assert not other.resume()
    assert places(vertex) == ["us-central1"]
    wait(job, cloud, until=State.RUNNING)
    assert other.refresh().state is State.RUNNING


def test_a_process_that_knows_only_the_name_believes_no_record_in_somebody_elses_bucket(submit, cloud):
    job = submit()
    name, storage = f"records/{job.id}.json", cloud.world.part(Storage)
    record = storage.objects.get("my-bucket", name).content
    cloud.add_project("other-project")
    for one in storage.objects.walk("my-bucket"):
        storage.objects.delete("my-bucket", one.name)
    storage.buckets.drop("my-bucket")
    storage.add_bucket("my-bucket", location="us-central1", project="other-project")
    storage.objects.put("my-bucket", name, record)
    cloud.clock.advance(1000)
    assert attach(job.uri, backend=for_ref(cloud, job.uri)).refresh().state is State.FAILED


def test_a_process_that_knows_only_the_name_is_told_of_an_end(submit, cloud, vertex):
    for region in REGIONS:
        vertex.set_stock("g2-standard-24", 0, region=region)
    job = submit()
    wait(job, cloud, until=State.FAILED)
    assert attach(job.uri, backend=for_ref(cloud, job.uri)).failure.kind == "stockout_region"


def test_a_process_with_another_account_makes_nothing_and_says_with_which_it_would(
    submit, make, cloud, vertex, caplog
):
    job = submit()
    other = Trainer(make(regions=REGIONS, service_account="else@my-project.iam.gserviceaccount.com"))
    cloud.clock.advance(1000)
    watched = other.attach(job.uri)
    assert not watched.resume()
    assert "service_account='train@my-project.iam.gserviceaccount.com'" in caplog.text
    assert places(vertex) == ["us-central1"]
    wait(job, cloud, until=State.SUCCEEDED)


def test_any_process_with_the_same_settings_moves_it_on(submit, make, cloud, vertex):
    job = submit()
    other = Trainer(make(regions=REGIONS)).attach(job.uri)
    wait(other, cloud, until=State.SUCCEEDED)
    assert places(vertex) == ["us-central1", "europe-west4"]
    wait(job, cloud, until=State.SUCCEEDED)


def test_a_process_whose_bucket_lacks_the_code_names_no_place_and_ends_nothing(submit, make, cloud, vertex):
    job = submit()
    other = Trainer(make(regions=REGIONS)).attach(job.uri)
    access = other._backend._access
    objects = Objects(access, "my-bucket")
    (code,) = [one.name for one in objects.list("code/").seen]
    kept = objects.read(code).content
    objects.remove(code)
    cloud.clock.advance(1000)
    seen = other.refresh()
    assert "next place" not in seen.detail
    assert "its code is not where vertex could find it" in seen.detail
    assert not other.resume()
    assert places(vertex) == ["us-central1"]
    objects.write(code, kept, if_generation=0)
    wait(job, cloud, until=State.SUCCEEDED)


def test_a_cancel_by_the_name_alone_ends_what_another_would_ask_elsewhere(submit, cloud, vertex):
    job = submit()
    cloud.clock.advance(1000)
    job.refresh()
    attach(job.uri, backend=for_ref(cloud, job.uri)).cancel()
    assert not job.resume()
    assert places(vertex) == ["us-central1"]


def test_a_cancel_of_a_job_that_found_no_machines_anywhere_leaves_its_key_free(submit, make, cloud, vertex):
    job = submit(regions=["us-central1"])
    cloud.clock.advance(1000)
    job.refresh()
    board = job._backend.recorder().board
    board.write(attrs.evolve(board.read(job.id), over="stockout_region"))  # by whoever waited for it
    job.cancel()
    assert not Objects(job._backend._access, "my-bucket").list(f"jobs/{job.id}/lock").seen


def test_the_ledger_tells_of_the_move_whoever_made_it(submit, make, cloud):
    job = submit()
    wait(Trainer(make(regions=REGIONS)).attach(job.uri), cloud, until=State.SUCCEEDED)
    wait(job, cloud, until=State.SUCCEEDED)
    told = [(one.candidate.place, one.outcome.value) for one in job.attempts]
    assert told == [("us-central1", "accepted"), ("us-central1", "no room"), ("europe-west4", "accepted")]
    assert job.candidate.place == "europe-west4"


def test_a_job_that_ran_is_not_moved(make, cloud, vertex, code):
    vertex.set_fate(Fate(run_s=float("inf")))
    backend = make(regions=REGIONS)
    job = Trainer(backend).submit("train.py", source_dir=code, gpu="L4:2", provisioning_model="spot")
    cloud.clock.advance(200)
    (only,) = vertex.jobs.values()
    vertex.preempt(only)
    cloud.clock.advance(200)
    assert job.refresh().state is State.FAILED
    assert not job.supervise()
    assert len(vertex.jobs) == 1


def test_with_one_region_it_has_failed(submit, cloud):
    job = submit(regions=["us-central1"])
    cloud.clock.advance(1000)
    assert job.refresh().state is State.FAILED
    assert not job.supervise()
