"""Real containers that obey their job's record: superseded, doubled, cancelled, and one that fails."""

import time

import attrs
import pytest

from gputrain import VertexAI
from gputrain.google import GoogleClient, Objects
from gputrain.lifecycle import State
from gputrain_emulator.vertex import Vertex
from gputrain_emulator.vertex.states import State as Theirs
from tests.unit.vertex.check.live import WAIT_FOR_GO
from tests.unit.vertex.runs import Runs

PACE = {"rounds": 200, "every_s": 0.3}


@pytest.fixture
def jobs(cloud):
    return lambda: sorted(cloud.world.part(Vertex).jobs.values(), key=lambda one: one.serial)


@pytest.fixture
def process(cloud, tmp_path):
    (tmp_path / "train.py").write_text(WAIT_FOR_GO)
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    backend = VertexAI(cloud.project, "us-central1", bucket="gs://my-bucket", **reach)
    return Runs(backend, str(tmp_path), time.time, time.sleep)


@pytest.fixture
def go(cloud):
    access = GoogleClient(project=cloud.project, credentials=cloud.credentials, endpoints=cloud.endpoints)
    return lambda: Objects(access, "my-bucket").write("go", b"go", if_generation=None)


def said(process, record, word):
    lines = process.backend.logs(record).lines
    return [one.message for one in lines if one.rank is not None and one.message.startswith(word)]


def until(holds):
    patience = time.monotonic() + 60
    while not (found := holds()):
        assert time.monotonic() < patience
        time.sleep(0.3)
    return found


def test_of_two_jobs_of_one_attempt_one_trains_and_its_end_counts(process, jobs, go):
    record = process.submit().record
    process.backend.launch(process.request(record))
    go()
    record = process.until_over(**PACE)
    assert record.result == "succeeded"
    until(lambda: all(one.life.state is Theirs.SUCCEEDED for one in jobs()))
    assert len(said(process, record, "rank")) == 2


def test_a_job_whose_attempt_is_superseded_kills_its_ranks_and_saves_nothing(process, jobs):
    record = process.submit().record
    until(lambda: said(process, record, "rank"))
    stored = process.context.jobs.read("bert")
    following = attrs.evolve(record.attempt, id="k3x9q2ab", handle="")
    process.context.jobs.swap(
        record.end_attempt("launch_lost", 0.0, has_run=True).begin(following), stored.version
    )
    until(lambda: jobs()[0].life.state is Theirs.SUCCEEDED)
    assert not said(process, record, "saved")


def test_a_job_that_is_cancelled_by_its_record_alone_saves_and_is_cancelled(process, jobs):
    record = process.submit(num_nodes=2).record
    until(lambda: len(said(process, record, "rank")) == 4)
    stored = process.context.jobs.read("bert")
    process.context.jobs.swap(stored.record.cancel(), stored.version)
    record = process.until_over(**PACE)
    assert record.result == "cancelled"
    assert len(said(process, record, "saved")) == 4


def test_a_job_that_fails_reports_rank_and_traceback(process, tmp_path, cloud):
    (tmp_path / "train.py").write_text("import nosuchmodule\n")
    process.submit()
    record = process.until_over(**PACE)
    assert (record.result, record.failure.rank in (0, 1)) == ("exception", True)
    assert "ModuleNotFoundError: No module named 'nosuchmodule'" in record.failure.traceback
    assert process.status().state in (State.FAILED, None)
