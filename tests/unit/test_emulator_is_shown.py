"""One variable leads Python to an emulator, as it leads the commands, and whatever shows jobs says so."""

import time

import pytest

import gputrain
import gputrain_emulator
from gputrain import Trainer, VertexAI
from gputrain.google.endpoints import reach
from gputrain_emulator.storage import Storage

REGION = "us-central1"


@pytest.fixture
def url(monkeypatch):
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location=REGION)
        monkeypatch.setenv("GPUTRAIN_ENDPOINT", cloud.endpoints.url)
        yield cloud.endpoints.url
        assert not cloud.dispatcher.failures


def test_the_variable_leads_python_there_and_every_repr_says_so(url, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    account = "train@my-project.iam.gserviceaccount.com"
    trainer = Trainer(VertexAI("my-project", REGION, bucket="gs://my-bucket", service_account=account))
    planned = trainer.plan(str(script), gpu="L4:1")
    assert any(url in one for one in planned.warnings)
    job = planned.submit(idempotency_key="trial")
    scan = trainer.map(str(script), [{"n": 1}], name="scan", gpu="L4:1")
    while not scan.jobs:
        time.sleep(0.05)
    for shown in (repr(trainer), repr(job), str(job), repr(gputrain.attach(job.uri)), repr(scan)):
        assert f"emulator: {url}" in shown
    scan.close()  # nobody watches a cloud that has ended
    assert str(planned).count(url) == 1


def test_the_address_of_an_emulator_that_wants_its_token_is_taken_and_the_token_never_shown():
    with gputrain_emulator.start(anonymous=False) as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location=REGION)
        token = cloud.world.callers.issue(cloud.owner)
        url = f"{cloud.endpoints.url}/_emulator/as/{token}"
        backend = VertexAI("my-project", REGION, bucket="gs://my-bucket", **reach(url))
        assert Trainer(backend).jobs() == []
        assert cloud.endpoints.url in repr(backend)
        assert token not in repr(backend)
        assert token not in repr(Trainer(backend).doctor())


def test_credentials_that_were_given_for_google_do_not_go_there(url):
    class Mine:
        universe_domain, valid = "googleapis.com", False

        def refresh(self, *_):
            raise AssertionError("a token was asked for")

        before_request = apply = refresh

    backend = VertexAI("my-project", REGION, bucket="gs://my-bucket", credentials=Mine())
    assert url in repr(backend)
    assert Trainer(backend).jobs() == []
