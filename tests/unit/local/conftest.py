"""Jobs of a folder of the test's own."""

import shutil
import subprocess
import sys

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


FILL = """
def fill(ballast):
    with open(ballast, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 512):
                pass
        except OSError:
            return file.tell()
"""


@pytest.fixture
def on_a_small_disk(tmp_path):
    """What a program prints that has a disk of 256 KiB, whose folder of jobs is its first word."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here: no small disk can be made")
    disk = tmp_path / "disk"
    disk.mkdir()

    def run(program, *words):
        mount = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'
        inner = [sys.executable, "-c", FILL + program, str(disk / "jobs"), *words]
        words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(disk), *inner]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        if "mount" in done.stderr or "unshare" in done.stderr:
            pytest.skip(f"no small disk can be made here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
