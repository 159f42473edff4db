"""What fits nowhere is refused in the plan, by name; what the plan takes is what the services take."""

from datetime import datetime, timezone

import pytest

from gputrain.backends.base import Bundle
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.vertex import VertexAI
from gputrain.jobstore import JobRecord
from gputrain.orchestration.options import draw
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
from tests.each import each
from tests.support.clouds import emulated

HOME = "gs://my-bucket/team"
VALUE_BYTES, WORD_BYTES = 262_144, 131_072
"""Of a metadata value (compute v1 documentation), and of one argument with its NUL (execve(2))."""


def compute(**reach):
    return ComputeEngine("my-project", regions=["us-central1"], bucket=HOME, check_network=False, **reach)


def vertex(**reach):
    return VertexAI("my-project", "us-central1", bucket=HOME, **reach)


BACKENDS = each("backend", [compute, vertex])


def asked(backend, **fields):
    spec = TrainingSpec(**{"script": "train.py", "gpu": "L4:8", **fields})
    return spec, candidates(spec, [backend().supply])


def refused(backend, **fields):
    spec, wanted = asked(backend, **fields)
    found = list(wanted.refusals)
    assert bool(found) is not bool(wanted.candidates), spec
    return found


def words(text, total):
    """Texts of so many bytes together, each of which a kernel takes."""
    each = text * (1000 // len(text.encode()))
    return [each] * (total // len(each.encode()))


SECRETS = {f"KEY_{n}": f"secret://projects/{'p' * 90}/secrets/{'s' * 300}/versions/1" for n in range(700)}


@BACKENDS
@each(
    ("field", "fields"),
    [
        ("args", {"args": words("x", 300_000)}),
        ("command", {"script": None, "command": words("x", 300_000)}),
        ("requirements", {"requirements": words("x", 300_000)}),
        ("secrets", {"secrets": SECRETS}),
        ("args", {"args": words("x", 200_000), "requirements": words("y", 100_000)}),
        ("requirements", {"args": words("y", 100_000), "requirements": words("x", 200_000)}),
    ],
)
def test_what_no_order_holds_is_refused_by_the_largest_of_it(backend, field, fields):
    (one, *_) = [one for one in refused(backend, **fields) if one.subject in fields and "KiB" in one.why]
    assert one.subject == field
    assert one.fix


@each(("num_nodes", "taken", "too_many"), [(1, 220_000, 235_000), (1000, 150_000, 165_000)])
def test_what_a_vm_holds_beside_the_names_of_its_gang_is_the_jobs(num_nodes, taken, too_many):
    assert refused(compute, args=words("x", taken), num_nodes=num_nodes) == []
    assert refused(compute, args=words("x", too_many), num_nodes=num_nodes)


LONGEST = {
    "script": "d/" * 1000 + "train.py",
    "checkpoint_dir": "gs://b/" + "\u00e9" * 380,
    "output_dir": "gs://b/" + "\u2603" * 250,
    "image": f"us-docker.pkg.dev/{'p' * 60}/{'r' * 60}/{'i' * 120}@sha256:{'0' * 64}",
}
"""What else may stand in an order, each as long as it gets."""


@pytest.mark.check
@BACKENDS
@each(
    ("text", "num_nodes"),
    [("x", 1000), ("$", 1), ('"', 1), ("\u00e9", 1), ("\u2603", 1), ("\U0001f600", 1000)],
)
def test_what_the_plan_takes_fits(backend, text, num_nodes):
    fits = None
    for total in range(8_000, 300_000, 8_000):
        spec, wanted = asked(backend, args=words(text, total), num_nodes=num_nodes, **LONGEST)
        if not wanted.candidates:
            break
        fits = spec, wanted.candidates[0]
    assert fits is not None
    spec, candidate = fits
    argv = (spec.script, *spec.args)
    bundle = Bundle(location=f"{HOME}/code/{'0' * 64}.tar.gz", argv=argv, sha256="0" * 64)
    record = JobRecord(job_id="j" * 60, spec={})
    attempt = draw(record, candidate, datetime.now(timezone.utc))
    with emulated() as cloud:
        made = backend(endpoints=cloud.endpoints, credentials=cloud.credentials)
        body = made.build_request(record, spec, attempt, candidate, bundle).body
    if backend is compute:
        made = body["resource"]
        items = made.get("instanceProperties", made)["metadata"]["items"]
        assert max(len(one["value"].encode()) for one in items) <= VALUE_BYTES
        return
    container = body["customJob"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    assert max(len(word.encode()) for word in (*container["command"], *container["args"])) < WORD_BYTES


OURS = [
    "gs://my-bucket",
    "gs://my-bucket/",
    "gs://my-bucket/team",
    *(f"gs://my-bucket/team/{one}" for one in ("code", "images", "jobs", "notes", "records")),
    "gs://my-bucket/team/records/mine/",
    "gs://my-bucket/team/code/mine",
    "gs://my-bucket/team/jobs/other-1",
    "gs://my-bucket/team/jobs/other-1/k3x9q2ab",
    "gs://my-bucket/team/jobs/other-1/k3x9q2ab/claim",
]
OTHERS = [
    "gs://my-bucket/teams",
    "gs://my-bucket/team/mine",
    "gs://my-bucket/team/coder",
    "gs://my-bucket/team/jobs/other-1/checkpoints",
    "gs://my-bucket/team/jobs/other-1/output/mine",
    "gs://my-bucket/records",
    "gs://other/team/records",
]


@BACKENDS
@each("field", ["checkpoint_dir", "output_dir"])
def test_a_folder_that_holds_what_runs_jobs_is_refused_wherever_it_lies(backend, field):
    for place in OURS:
        (one,) = refused(backend, **{field: place})
        assert one.subject == field, place
        assert HOME in one.why
    for place in OTHERS:
        assert refused(backend, **{field: place}) == [], place


def test_a_place_that_a_container_sees_as_a_folder_is_the_same_place():
    for place in ("/gcs/my-bucket/team/records", "/gcs/other/../my-bucket/team/./code/", "/gcs/my-bucket"):
        (one,) = refused(vertex, checkpoint_dir=place)
        assert one.subject == "checkpoint_dir", place
    assert refused(vertex, checkpoint_dir="/gcs/my-bucket/team/mine") == []
