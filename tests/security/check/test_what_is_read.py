"""What lies in a bucket or a log is an answer, never an exception, and no bill is lost over it."""

import contextlib
import json

import pytest
from hypothesis import example, given, settings, strategies as st

import gputrain_emulator
from gputrain import Local
from gputrain.backends.compute import ComputeEngine
from gputrain.errors import GputrainError
from gputrain.google import Objects
from gputrain.metrics import Metrics
from gputrain.retry import ONCE
from gputrain.trainer import Trainer, attach
from gputrain_emulator.storage import Storage
from tests.support.clouds import settings as cloud_settings

VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(),
        st.text(max_size=20),
        st.sampled_from([10**400, -1, 1e308, float("inf"), float("nan"), "\ud800", "../../x", "a" * 5000,
                         ""]),
        st.builds(dict), st.builds(list),  # a new one each time: `spoiled` writes into what it has drawn
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
BYTES = st.one_of(
    st.binary(max_size=200),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"[" * 100_000, b'{"a":' * 50_000, b"", b"\xff\xfe", b"null", b"<html>", b"9" * 6000]),
)
WORDS = {
    "schema": 2, "phase": "ended", "node_rank": 0, "why": "", "exit_code": 1,
    "ended_at": "2026-11-20T12:00:11Z",
    "booted_at": "2026-11-20T11:00:00Z", "running_at": "2026-11-20T11:01:00Z", "vm_id": "1", "message": "",
    "result": {
        "state": "failed", "exit_code": 1, "node_rank": 0, "ended_at": "2026-11-20T12:00:10Z", "stop": None,
        "cause": {
            "kind": "exception", "rank": 1, "node_rank": 0, "exit_code": 1, "message": "ValueError: torn",
            "traceback": "Traceback", "last_lines": ["a"], "signal": 9, "hostname": "h",
        },
    },
}  # fmt: skip


def spoiled(draw):
    """A guest's words with some of them exchanged, at any depth."""
    document = json.loads(json.dumps(WORDS))
    for _ in range(draw(st.integers(1, 3))):
        inner, path = document, draw(st.sampled_from([(), ("result",), ("result", "cause")]))
        for name in path:
            inner = inner[name] if isinstance(inner.get(name), dict) else inner
        inner[draw(st.sampled_from(sorted(inner) or ["a"]))] = draw(VALUES)
    return json.dumps(document).encode()


DOCUMENTS = st.one_of(BYTES, st.composite(spoiled)())


class World:
    """A cloud with three jobs: one of a good guest, one of a hostile guest, one whose VM is gone."""

    def __init__(self, cloud, script):
        self.cloud = cloud
        trainer = Trainer(self.backend(), sleep=cloud.clock.advance)
        self.jobs = {
            name: trainer.submit(script, gpu="L4:1", max_run_duration="1h", name=name)
            for name in ("good", "runs", "gone")
        }
        cloud.clock.advance(300)
        self.put(self.objects("good")["status"], json.dumps({"schema": 2, "phase": "running"}).encode())
        cloud.compute.vms  # noqa: B018  # the world turns when it is looked at
        vm = next(vm for vm in cloud.compute.vms.values() if vm.name.startswith("gone"))
        self.backend()._access.request(
            "DELETE",
            f"{cloud.endpoints.compute}/compute/v1/projects/my-project/zones/{vm.zone}/instances/{vm.name}",
            action="delete it",
            policy=ONCE,
        )
        cloud.clock.advance(300)

    def backend(self):
        """A process of its own, which has seen nothing yet."""
        return ComputeEngine(**cloud_settings(self.cloud, regions=["us-central1"]))

    def objects(self, name):
        """The names that the jobs' own code reads."""
        job = self.jobs[name]
        attempt = job.machines[0].split("-")[-2]
        folder = f"jobs/{job.id}/{attempt}/"
        log, record = f"{folder}logs/0-000000000000000", f"records/{job.id}.json"
        return {"status": f"{folder}status-0.json", "log": log, "record": record}

    def put(self, name, data):
        Objects(self.backend()._access, "my-bucket").write(name, data, if_generation=None)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "train.py").write_text("print('hello')\n")
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        cloud.quota("NVIDIA_L4_GPUS", 100)
        cloud.quota("GPUS_ALL_REGIONS", 100)
        yield World(cloud, str(folder / "train.py"))


def looked_at(world, name):
    """All that a person may ask of a job; what is no error of ours gets out."""
    backend = world.backend()
    job = None
    with contextlib.suppress(GputrainError):
        job = attach(world.jobs[name].uri, backend=backend)
    if job is None:
        return
    looks = [job.refresh, lambda: list(job.logs()), job.metrics, lambda: str(job.table)]
    for look in [*looks, *([job.result] if job.state.is_terminal else [])]:
        with contextlib.suppress(GputrainError):
            look()


def the_bill_is_seen(world):
    trainer = Trainer(world.backend())
    names = {job.id for job in trainer.jobs()}
    good = world.jobs["good"].id
    assert good in names
    assert good not in {orphan.job_id for orphan in trainer.orphans()}


@pytest.mark.parametrize("what", ["status", "log"])
@settings(max_examples=20)
@given(DOCUMENTS)
def test_a_guest_can_write_nothing_that_ends_whoever_looks(world, what, content):
    for name in ("runs", "gone"):
        world.put(world.objects(name)[what], content)
        looked_at(world, name)
    the_bill_is_seen(world)


@settings(max_examples=15)
@given(DOCUMENTS)
def test_a_record_that_is_none_hides_no_other_job(world, content):
    record = world.objects("runs")["record"]
    kept = Objects(world.backend()._access, "my-bucket").read(record).content
    try:
        world.put(record, content)
        looked_at(world, "runs")
        the_bill_is_seen(world)
    finally:
        world.put(record, kept)


@settings(max_examples=150)
@given(st.lists(st.one_of(VALUES.map(json.dumps), st.text(max_size=40)), max_size=5))
def test_no_line_of_a_log_is_too_strange_for_metrics(values):
    metrics = Metrics.read(f"GPUTRAIN_METRIC {value}" for value in values)
    str(metrics.table)
    assert "<script" not in metrics._repr_mimebundle_()["text/html"]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A job of this machine that has ended, and its folder."""
    where = tmp_path_factory.mktemp("local")
    (where / "train.py").write_text("print('hello')\n")
    job = Trainer(Local(gpus=0, root=where / "jobs")).submit(str(where / "train.py"), max_run_duration="5m")
    job.wait(progress="none")
    (attempt,) = (one.parent for one in (where / "jobs" / job.id).glob("*/order.json"))
    return job, where / "jobs", attempt


NO_LISTS = [
    b'{"schema": 1, "nodes": %s}' % one for one in (b"true", b"3", b'"ab"', b"{}", b"null", b"[1, []]")
]
FILES = (
    "order.json", "state.json", "node-0.log", "attempt-0/result-0.json", "records/{job}.json",
)  # fmt: skip


@settings(max_examples=60)
@given(st.sampled_from(FILES), st.one_of(DOCUMENTS, st.sampled_from(NO_LISTS)))
@example(FILES[0], NO_LISTS[0])
@example(FILES[-1], b"[" * 100_000)
def test_nothing_in_the_folder_of_a_local_job_ends_whoever_looks(local, file, content):
    there, root, attempt = local
    folder = root if file.startswith("records/") else attempt
    file = file.format(job=there.id)
    kept = (folder / file).read_bytes()
    (folder / file).write_bytes(content)
    try:
        job = attach(there.uri) if folder == attempt else there
        for look in (
            job.refresh,
            lambda: list(job.logs(tail=2)),
            lambda: list(job.logs()),
            job.metrics,
            job.to_dict,
        ):
            with contextlib.suppress(GputrainError):
                look()
        assert {one.id for one in Trainer(Local(gpus=0, root=root)).jobs()} <= {job.id}
    finally:
        (folder / file).write_bytes(kept)
