"""Whatever a spec says stands in a request where its field stands, letter by letter, and nowhere else."""

import contextlib
import json
import re
from datetime import datetime, timezone

import pytest

from gputrain import ComputeEngine, VertexAI
from gputrain.backends.base import Bundle
from gputrain.backends.compute.request import call, draft
from gputrain.backends.vertex.request import custom_job
from gputrain.errors import GputrainError
from gputrain.jobstore import JobRecord
from gputrain.orchestration.options import draw
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
from tests.security.test_what_is_shown import strings

CLOUDS = (
    ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket"),
    VertexAI("my-project", region="us-central1", bucket="gs://my-bucket",
             service_account="train@my-project.iam.gserviceaccount.com"),
)  # fmt: skip
ADDRESSES = dict.fromkeys(("storage", "compute", "secretmanager"), "https://example.com")
IMAGE = "us-docker.pkg.dev/p/r/i@sha256:" + "0" * 64
SECRET = "secret://projects/p/secrets/s/versions/1"
FIELDS = {
    "args": lambda text: (text, "last"), "env": lambda text: {"SAID": text},
    "env name": lambda text: {text: "1"},
    "labels": lambda text: {"team": text}, "label name": lambda text: {text: "nlp"}, "name": str, "gpu": str,
    "image": str, "machine_type": str, "reservation": str, "requirements": lambda text: (text,),
    "secrets": lambda text: {"KEY": text},
    "secret name": lambda text: {text: SECRET},
    "checkpoint_dir": lambda text: f"gs://my-bucket/{text}", "output_dir": str, "max_run_duration": str,
    "provisioning_model": str, "launcher": str,
}  # fmt: skip
"""How a text is said in each field."""
KEYS = {"env name": "env", "label name": "labels", "secret name": "secrets"}
FREE = {
    "args": ["said"], "requirements": ["said"], "env": ["said", "said$"], "checkpoint_dir": ["said", "said$"],
}  # fmt: skip
"""Fields that take any text, with plain ones: a variable with a $ stands elsewhere on Vertex AI."""


def asked(backend, field, value):
    """The body of the request for a job that says it; None where it is refused."""
    try:
        said = {"script": "train.py", "gpu": "L4:1", "image": IMAGE, KEYS.get(field, field): value}
        spec = TrainingSpec(**said)
        one = candidates(spec, [backend.supply]).candidates[0]
        bundle = Bundle(
            location="gs://my-bucket/code/abc.tar.gz", argv=("train.py", *spec.args), sha256="abc"
        )
        record = JobRecord(job_id="train-x1", spec={})
        attempt = draw(record, one, datetime(2026, 11, 20, tzinfo=timezone.utc), attempt_id="a1234567")
        parts = {"spec": spec, "attempt": attempt, "candidate": one, "bundle": bundle, "addresses": ADDRESSES}
        if backend.name == "vertex":
            return custom_job(backend._settings, job_id=record.job_id, **parts)
        return call(draft(backend._settings, job_id=record.job_id, **parts))
    except (GputrainError, IndexError):  # nothing on offer has such a shape
        return None


def leaves(value, path=()):
    """Each text of a document with where it stands; one that is JSON or a command's last word is opened."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    else:
        yield path, value


@pytest.mark.parametrize("backend", CLOUDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.soak)])
def test_a_text_changes_nothing_of_a_request_but_its_own_place(backend, count):
    taken = dict.fromkeys(FIELDS, 0)
    plain = {
        (field, word): dict(leaves(asked(backend, field, FIELDS[field](word))))
        for field, words in FREE.items()
        for word in words
    }
    for text in strings(count):
        for field, said in FIELDS.items():
            body = asked(backend, field, said(text))
            if body is None:
                continue
            taken[field] += 1
            if field not in FREE:
                assert re.fullmatch(r"[A-Za-z0-9_.-]*", text), (field, text)
                continue
            word = FREE[field][-1 if "$" in text else 0]
            harmless, found = plain[field, word], dict(leaves(body))
            changed = {path: value for path, value in found.items() if harmless.get(path) != value}
            assert found.keys() == harmless.keys(), (field, text)
            own = {path: value.replace(word, text) for path, value in harmless.items() if path in changed}
            assert changed == own, (field, text)
            json.dumps(body, ensure_ascii=False).encode()
    assert taken["args"] == taken["env"] > 0
