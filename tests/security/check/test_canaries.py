"""A credential that came in anywhere stands in nothing that is shown, logged, pickled or raised."""

import contextlib
import functools
import io
import json
import logging
import pickle
import random
import string
import traceback

import attrs
import pytest
from google.oauth2.credentials import Credentials

from gputrain import ComputeEngine, Local, Trainer, TrainingSpec, VertexAI
from gputrain.cli import output
from gputrain.errors import GputrainError
from gputrain.google import Endpoints
from gputrain.trainer import attach
from tests.unit.google.answering import Server

HEADS = {
    "ya29.": 60, "1//0": 60, "GOCSPX-": 28, "AIza": 35, "ghp_": 36, "github_pat_": 60, "glpat-": 20,
    "hf_": 34, "sk-proj-A": 48, "sk-ant-A": 40, "nvapi-": 60, "AKIA": 16, "xoxb-": 40, "sk_live_": 24,
    "npm_": 36, "pypi-AgE": 60, "dckr_pat_": 27, "r8_": 37, "AGE-SECRET-KEY-1": 58,
}  # fmt: skip
"""How credentials begin, and how many letters follow."""
CAPITALS = ("AKIA", "AGE-SECRET-KEY-1")
WARNED = ("HF_TOKEN", "WANDB_API_KEY", "PGPASSWORD", "MYSQL_PWD", "SENTRY_DSN", "AWS_SECRET_ACCESS_KEY", "X")


def canaries(count, seed=20261122):
    """Credentials that nobody has, of every form that is known."""
    dice = random.Random(seed)
    for number in range(count):
        head, length = list(HEADS.items())[number % len(HEADS)]
        letters = string.ascii_uppercase + string.digits
        letters += "" if head in CAPITALS else string.ascii_lowercase
        yield head + "".join(dice.choice(letters) for _ in range(length))


def shown(look):
    """What is shown of an answer, or of an error: as text, page and document, pickled, with its traceback."""
    try:
        found = look()
    except GputrainError as error:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            output.print_error(error, as_json=True)
        yield from (str(error), repr(error), "".join(traceback.format_exception(error)), out.getvalue())
        yield pickle.dumps(error).decode("latin-1")
    else:
        page = getattr(found, "_repr_mimebundle_", dict)()
        yield from (str(found), repr(found), json.dumps(page), getattr(found, "explain", str)())


def specs(said):
    """Specs that have it in one field each."""
    yield from ({"args": words} for words in (["--token", said], [f"--token={said}"], ["a", said, 3]))
    yield from ({"env": {name: said}} for name in WARNED)
    yield from ({"env": words} for words in ([f"A={said}"], {said: "1"}, {"U": f"postgres://me:{said}@db/x"}))
    yield from ({"labels": words} for words in ({"key": said}, {said: "a"}))
    yield from ({"secrets": words} for words in ({"K": said}, {said: "x"}, {"K": f"secret://{said}"}))
    yield from ({"image": one} for one in (f"me:{said}@ghcr.io/x", f"ghcr.io/x:{said}"))
    addresses = (f"git+https://me:{said}@github.com/x", f"x @ https://{said}@h/x.whl")
    yield from ({"requirements": [one]} for one in addresses)
    yield from ({field: f"gs://me:{said}@b"} for field in ("checkpoint_dir", "output_dir"))
    yield from ({field: said} for field in ("name", "max_run_duration", "reservation", "launcher"))
    yield {"machine_type": f"{said} "}
    yield {"command": ["curl", f"https://me:{said}@h"], "script": None}


@pytest.mark.filterwarnings("ignore:.*looks like a secret")
@pytest.mark.parametrize("count", [len(HEADS), pytest.param(100, marks=pytest.mark.soak)])
def test_no_credential_in_a_spec_or_a_name_is_shown(count):
    trainer = Trainer(Local(gpus=0))
    for canary in canaries(count):
        found = []
        for fields in specs(canary):
            for more in ({}, {"num_nodes": 0}):
                given = {"script": __file__, **fields, **more}
                found += shown(lambda given=given: TrainingSpec(**given))
            found += shown(lambda given=fields: trainer.plan(TrainingSpec(**{"script": __file__, **given})))
        for name in (f"gputrain://{canary}@local/x", f"gputrain://compute/p/z~b/{canary}?"):
            found += shown(lambda name=name: attach(name))
        assert [text for text in found if canary in text] == [], canary


@pytest.fixture
def echo():
    """A service that answers everything with an error, in which the credentials that came stand."""
    said = {"status": 403, "canary": ""}

    def answer(request):
        told = f"{request.headers.get('Authorization')} of {said['canary']} at {request.path}"
        error = {"code": said["status"], "message": told, "status": "UNKNOWN"}
        error["errors"] = [{"message": told, "reason": said["canary"]}]
        error["details"] = [{"@type": "x", "token": said["canary"], "metadata": {"a": told}}]
        return said["status"], json.dumps({"error": error}).encode(), {}

    server = Server(answer)
    said["url"] = server.url
    yield said
    server.close()


@pytest.mark.parametrize("cloud", [ComputeEngine, VertexAI])
def test_no_token_that_a_service_throws_back_is_shown(echo, cloud, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    (tmp_path / "train.py").write_text("pass\n")
    urls = {one.name: echo["url"] for one in attrs.fields(Endpoints)}
    spec = TrainingSpec(script=str(tmp_path / "train.py"), gpu="L4:1", image="us-docker.pkg.dev/p/r/i:v1")
    for status, canary in zip((400, 401, 403, 404, 409, 412, 416, 422, 499, 501), canaries(10)):
        echo.update(canary=canary, status=status)
        backend = cloud(
            "my-project", regions=["us-central1"], bucket="gs://my-bucket", sleep=lambda _: None,
            credentials=Credentials(token=canary), endpoints=Endpoints(**urls),
        )  # fmt: skip
        trainer = Trainer(backend)
        found = [repr(backend), repr(trainer), *shown(trainer.jobs), *shown(trainer.orphans)]
        for look in (trainer.plan, trainer.submit, trainer.doctor):
            found += shown(functools.partial(look, spec))
        assert [text for text in (*found, caplog.text) if canary in text] == [], canary
