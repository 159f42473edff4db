"""An emulated cloud with a bucket, as a VM reaches it."""

import pytest

from gputrain.runtime import fence, reports
from gputrain.runtime.cloud import Bucket
from gputrain.runtime.reports import NodeLog
from tests.support.records import OURS, Records
from tests.support.vm import cloud_of_a_vm


@pytest.fixture
def cloud(monkeypatch):
    """An emulated cloud with an empty bucket, and a metadata server that speaks for a VM there."""
    with cloud_of_a_vm(monkeypatch) as cloud:
        yield cloud


@pytest.fixture
def at_once(monkeypatch):
    """A call that is not answered is not made again."""
    monkeypatch.setattr("gputrain.runtime.cloud.PAUSES_S", (0,))


class Node:
    """A VM before its ranks run, with its board; and the bucket and the job's record as others see them."""

    folder = f"jobs/bert/{OURS.attempt.id}/"

    def __init__(self, cloud, home):
        self.cloud, self.log, self.write = cloud, NodeLog(str(home), 0), Records(cloud).write
        self.there = Bucket(cloud.endpoints.storage, "my-bucket")
        self.job = {
            "storage": cloud.endpoints.storage, "bucket": "my-bucket", "folder": "jobs/bert/",
            "record": "records/bert.json", "attempt": OURS.attempt.id, "names": ["a"], "job_id": "bert",
            "boot_wait_s": 900, "is_queued": False, "zone": "z",
        }  # fmt: skip
        self.board = reports.VmReports(self.job, 0, self.log)

    def read(self, name):
        return self.there.get(self.folder + name)

    def names(self):
        return {name.rpartition("/")[2] for name in self.there.list(self.folder)}


@pytest.fixture
def node(cloud, tmp_path, monkeypatch, at_once):
    for name in ("FIRST_S", "EVERY_S", "TICK_S"):
        monkeypatch.setattr(reports, name, 0.02)
    for name in ("DENIED_FOR_S", "SILENT_FOR_S"):
        monkeypatch.setattr(fence, name, 0.0)
    node = Node(cloud, tmp_path)
    yield node
    node.board._is_over = True  # its thread would ask a cloud that has gone
    node.board._has_news.set()
    if node.board._thread.is_alive():
        node.board._thread.join()
