"""A bucket that cannot be mounted ends the boot, and the message says why and what to do."""

import pytest

from gputrain.runtime import mounts
from gputrain.runtime.contract import SHUTDOWN
from gputrain.runtime.mounts import Mounts
from gputrain.runtime.reports import NodeLog
from gputrain.runtime.supervisor import Failed, Rules, Stopped, Supervisor

JOB = {"bucket": "my-bucket", "folder": "jobs/bert/", "job_id": "bert"}


class Site:
    """A board and a machine without limits."""

    asked = said = ""

    def wants(self):
        return self.said

    def waiting(self):
        return Rules(float("inf"), "", 0.0)


@pytest.fixture
def mount(tmp_path, monkeypatch):
    """Mounts a place on a VM whose gcsfuse is this script, or that has none."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(mounts, "ROOT", str(tmp_path / "gcs"))
    monkeypatch.setattr(mounts, "SOURCE", str(tmp_path / "sources.list"))
    (tmp_path / "bin").mkdir()

    def run(script=None, said=""):
        if script:
            program = tmp_path / "bin" / "gcsfuse"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        site = Site()
        site.said = said
        made = Mounts(JOB, str(tmp_path / "data"), NodeLog(str(tmp_path), 0))
        return made.folder(Supervisor(site, site), "gs://other/ckpt")

    return run


def test_what_gcsfuse_says_is_told_with_the_right_that_it_needs(mount):
    with pytest.raises(Failed, match=r"gs://other/ckpt cannot be mounted: Error: 403 no access") as failed:
        mount("echo Error: 403 no access; exit 1")
    assert "roles/storage.objectViewer on gs://other" in str(failed.value)


def test_a_boot_image_without_gcsfuse_and_apt_says_which_one_to_take(mount):
    with pytest.raises(Failed, match=r"gcsfuse cannot be installed: .*no apt-get(.|\n)*image_family="):
        mount()


def test_a_bucket_that_never_answers_ends_the_boot(mount, monkeypatch):
    monkeypatch.setattr(mounts, "MOUNT_S", 0.5)
    with pytest.raises(Failed, match=r"has not mounted it in 0\.5 s"):
        mount("exec /bin/sleep 600")


def test_a_stop_waits_for_no_bucket(mount):
    with pytest.raises(Stopped):
        mount("exec /bin/sleep 600", said=SHUTDOWN)
