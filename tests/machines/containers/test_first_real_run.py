"""The first real run with its container, on an emulated cloud whose VMs have a real engine."""

import runpy
from pathlib import Path

import requests

from gputrain import Trainer
from tests.machines.containers.conftest import IMAGE

EXAMPLE = Path(__file__).parents[3] / "examples" / "first_real_run.py"


def test_the_first_real_run_is_whole_and_leaves_nothing(backend, monkeypatch, capsys):
    monkeypatch.setattr(
        requests.Session, "send", requests.Session.send
    )  # put back afterwards: the example records there
    script = runpy.run_path(str(EXAMPLE))
    assert script["run"](Trainer(backend), IMAGE), capsys.readouterr().out
    assert "container well" in " ".join(capsys.readouterr().out.split())
    assert script["ANSWERS"].read_text().count("\n") > 20
