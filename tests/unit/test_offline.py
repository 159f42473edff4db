"""A client without a network: no call waits beyond its bound, and the person is told why it waits."""

import logging
import socket
from datetime import datetime, timezone

import pytest
from google.oauth2.credentials import Credentials

import gputrain
from gputrain.errors import TransientError
from gputrain.google import Api, Endpoints
from gputrain.retry import READ
from gputrain.trainer import Trainer
from tests import present

TOLD_WITHIN_S = 60.0
"""Pauses are drawn, and twice as long each time."""

BESIDE_S = 10.0
"""For what a submit asks for its plan, which does without."""


class Clock:
    """Time that passes while somebody sleeps; an answer that never comes takes none."""

    def __init__(self):
        self.now = self.began = 1.8e9

    def sleep(self, seconds):
        self.now += seconds

    @property
    def gone_s(self):
        return self.now - self.began


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told(clock, monkeypatch):
    """What a person is told, and at which second."""
    found = []

    def hear(record):
        found.append((clock.gone_s, record.getMessage()))
        return True

    monkeypatch.setattr(logging.getLogger("gputrain"), "filters", [hear])
    return found


@pytest.fixture
def nowhere():
    """Addresses at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        yield Endpoints(**{api.value: url for api in Api})


@pytest.mark.parametrize("kind", ["compute", "vertex"])
@pytest.mark.parametrize("act", ["submit", "attach", "jobs"])
def test_whoever_has_no_network_hears_why_and_waits_no_longer_than_a_read(
    kind, act, nowhere, clock, told, tmp_path
):
    (tmp_path / "train.py").write_text("pass\n")
    backend = present.backend(kind)(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket", endpoints=nowhere,
        credentials=Credentials(token="t"), sleep=clock.sleep, now=lambda: clock.now,
    )  # fmt: skip
    trainer = Trainer(backend, sleep=clock.sleep, now=lambda: datetime.fromtimestamp(clock.now, timezone.utc))
    calls = {
        "submit": lambda: trainer.submit(str(tmp_path / "train.py"), gpu="L4:1", idempotency_key="k"),
        "attach": lambda: gputrain.attach("gputrain://my-project/my-bucket/k", backend=backend),
        "jobs": trainer.jobs,
    }
    with pytest.raises(TransientError):
        calls[act]()
    assert clock.gone_s <= READ.budget_s + BESIDE_S
    at_s, line = told[0]
    assert at_s <= TOLD_WITHIN_S
    assert "it is tried again for" in line
