"""Jobs of a folder of the test's own."""

import pytest

from tests.unit.local.jobs import jobs_of


@pytest.fixture
def jobs(tmp_path):
    made = jobs_of(tmp_path / "jobs")
    yield made
    for one in made.backend.machines():
        made.backend.remove(one)


WAITS = """
import signal, sys, time
def save(*_):
    open(sys.argv[1], "a").write("saved ")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("waiting", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def waits(script, tmp_path):
    """A script that waits until it is asked to stop, and then saves; and what it has saved."""

    def saved():
        path = tmp_path / "saved"
        return path.read_text() if path.exists() else ""

    return {"script": script(WAITS), "args": [str(tmp_path / "saved")]}, saved


@pytest.fixture(autouse=True)
def quick_limits(monkeypatch):
    """Ranks that do not listen are waited for a moment, not for half a minute."""
    monkeypatch.setenv("GPUTRAIN_GRACE", "1")
