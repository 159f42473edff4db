"""One key is one job on Vertex AI, whatever is lost, doubled, deleted or full: by record and claim."""

from collections import Counter

import attrs
import pytest

from gputrain.errors import TransientError
from gputrain.jobstore import Launch, RecordError
from gputrain.lifecycle import State
from gputrain_emulator import faults
from gputrain_emulator.vertex.states import State as Theirs
from tests.unit.vertex.runs import REGIONS, tell

CREATE, LIST, GET = (f"aiplatform.customJobs.{one}" for one in ("create", "list", "get"))


def places(made):
    return [job.region for job in made()]


def test_a_region_that_finds_no_machines_later_gives_way_to_the_next(runs, made, vertex):
    vertex.set_stock("g2-standard-24", 0, region="us-central1")
    process = runs(regions=REGIONS)
    process.submit()
    record = process.until_over()
    assert record.result == "succeeded"
    assert (places(made), record.restarts) == (REGIONS[:2], 0)
    assert [one.outcome for one in record.history] == ["stockout_region"]
    first, second = (one.document["jobSpec"] for one in made())
    assert "baseOutputDirectory" in first
    assert "baseOutputDirectory" not in second


def test_a_job_whose_launcher_was_killed_is_adopted_once_a_list_shows_it(runs, made, cloud, forever):
    process = runs()
    stored = process.submit()
    attempt = attrs.evolve(stored.record.attempt, state=Launch.LAUNCHING, handle="")
    process.context.jobs.swap(attrs.evolve(stored.record, attempt=attempt), stored.version)
    cloud.fail(LIST, faults.Stale(seconds=3600), times=1)
    assert runs().reconcile().attempt == attempt
    assert runs().submit().record == stored.record
    assert len(made()) == 1


def test_an_image_as_it_is_is_created_once_and_a_late_job_of_a_lost_create_is_cancelled(
    trainer, made, cloud, forever
):
    image = "us-docker.pkg.dev/my-project/train/image:1"
    cloud.add_image(image)
    fields = {"image": image, "gpu": "L4:2", "idempotency_key": "k"}
    cloud.fail(CREATE, faults.DropAfterCommit(), times=1)
    lag = cloud.fail(LIST, faults.Stale(seconds=36000), times=None)
    with pytest.raises(TransientError):
        trainer().submit(**fields)
    assert len(made()) == 1
    cloud.clock.advance(700)
    job = trainer().submit(**fields)
    assert len(made()) == 2
    lag.cancel()
    job.refresh()
    job.supervise()
    cloud.clock.advance(300)
    assert [one.state for one in made()] == [Theirs.CANCELLED, Theirs.RUNNING]


@pytest.fixture
def doubled(runs, made, cloud, forever):
    """Two jobs of one attempt: the record names the first."""
    process = runs()
    record = process.submit().record
    cloud.clock.advance(200)
    process.backend.launch(process.request(record))
    assert len(made()) == 2
    return process


def test_of_two_jobs_of_an_attempt_the_one_that_holds_the_claim_is_adopted(
    doubled, made, vertex, claim, cloud
):
    first, second = made()
    claim(second)
    vertex.put(first, Theirs.SUCCEEDED)  # it left, as it found the claim taken
    record = doubled.reconcile()
    assert (record.attempt.handle, record.result) == (second.name, "")
    assert doubled.reconcile().result == ""
    vertex.put(second, Theirs.SUCCEEDED)
    cloud.clock.advance(2)
    assert doubled.reconcile().result == "succeeded"


def test_the_job_of_the_record_that_holds_the_claim_counts_and_the_other_ends_with_it(
    doubled, made, vertex, claim, cloud
):
    first, second = made()
    claim(first)
    assert doubled.reconcile().attempt.handle == first.name
    vertex.put(first, Theirs.SUCCEEDED)
    cloud.clock.advance(2)
    assert doubled.reconcile().result == "succeeded"
    cloud.clock.advance(60)
    assert second.state is Theirs.CANCELLED


@pytest.mark.parametrize(
    ("said", "expected"),
    [({"state": "done"}, "succeeded"), ({"state": "stopped"}, "cancelled"), (None, "cancelled")],
)
def test_a_cancelled_job_that_left_with_0_succeeded_only_if_it_was_done(
    runs, made, vertex, cloud, forever, claim, said, expected
):
    process = runs()
    process.submit("".join(["bert-", expected, "-", str(said is None).lower()]))
    job_id = made()[-1].document["labels"]["gputrain-job"]
    cloud.clock.advance(200)
    process.cancel(job_id=job_id)
    claim(made()[-1])
    if said:
        tell(process.backend, made()[-1], said)
    vertex.put(made()[-1], Theirs.SUCCEEDED)
    assert process.until_over(job_id).result == expected


def test_a_job_that_somebody_deleted_has_ended_and_is_not_made_again(runs, made, vertex, cloud, forever):
    process = runs()
    process.submit(max_restarts=3)
    cloud.clock.advance(200)
    vertex.jobs.clear()
    record = process.reconcile()
    assert (record.result, made()) == ("vanished", [])
    assert "somebody has deleted it" in record.failure.message


@pytest.mark.parametrize(
    "handle",
    [
        "projects/x/locations/evil.example/customJobs/1",
        "http://evil.example",
        "projects/x/locations/us-east1/customJobs/1",
    ],
)
def test_a_record_that_names_no_job_of_its_region_leads_nowhere(runs, cloud, handle):
    process, job_id = runs(), "bert"
    record = process.submit(job_id).record
    hostile = attrs.evolve(record, attempt=attrs.evolve(record.attempt, handle=handle))
    asked = len(cloud.requests)
    status = process.backend.inspect_many([hostile])[job_id]
    assert (status.state, "custom job" in status.detail) == (None, True)
    with pytest.raises(RecordError):
        process.backend.terminate(hostile, 0)
    assert {one.method for one in cloud.requests[asked:]} <= {LIST}


def test_a_job_of_another_attempt_is_not_ended(runs, made, forever):
    process = runs()
    record, other = process.submit("bert").record, process.submit("gpt").record
    stolen = attrs.evolve(record, attempt=attrs.evolve(record.attempt, handle=other.attempt.handle))
    process.backend.terminate(stolen, 30)
    by_job = {one.document["labels"]["gputrain-job"]: one.state for one in made()}
    assert by_job == {"bert": Theirs.CANCELLING, "gpt": Theirs.PENDING}


def test_a_look_at_200_jobs_is_a_few_calls_and_one_that_ended_is_seen(runs, there, cloud):
    process = runs()
    record, home = process.submit().record, process.backend._settings.home_label
    records = []
    for number in range(200):
        attempt_id, job_id = f"a{number:07}", f"bert-{number}"
        state = Theirs.FAILED if number == 7 else Theirs.PENDING
        job = there(state, job_id=job_id, home=home, attempt=attempt_id)
        attempt = attrs.evolve(record.attempt, id=attempt_id, handle=job.name)
        records.append(attrs.evolve(record, job_id=job_id, attempt=attempt))
    cloud.clock.advance(200)
    asked = len(cloud.requests)
    found = process.backend.inspect_many(records)
    calls = Counter(one.method for one in cloud.requests[asked:])
    reads = calls.pop("logging.entries.list")
    assert calls == {LIST: 2, GET: 1, "storage.objects.get": 2}  # 200 jobs on two pages
    assert reads <= 3, "why jobs wait is read for few at a time"
    assert (len(found), found["bert-7"].state) == (200, State.FAILED)
    assert {one.exists for one in found.values()} == {True}
