"""Runs commands in this process, in a folder of their own and with nobody's settings."""

import json

import pytest

import gputrain_emulator
from gputrain.cli import main
from gputrain.cli.commands import gputrain
from gputrain.cli.settings import SHARED, Settings

REGION = "us-central1"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder: no settings in it, none in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in (*(f"GPUTRAIN_{one.upper()}" for one in SHARED), "GPUTRAIN_PROGRESS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def settings():
    """The settings that a command has from its options, the environment and the file."""
    return lambda *words: Settings.of(gputrain.commands["jobs"].make_context("jobs", list(words)).params)


@pytest.fixture
def run(capsys):
    """Runs a command; its exit status, what it wrote, and what it wrote on stderr."""

    def call(*words):
        status = main(words)
        out, err = capsys.readouterr()
        return int(status), out, err

    return call


@pytest.fixture
def read(run):
    """Runs a command with ``--json``; its exit status and its document."""

    def call(*words):
        at = words.index("--") if "--" in words else len(words)
        status, out, err = run(*words[:at], "--json", *words[at:])
        assert err == ""
        return status, json.loads(out)

    return call


@pytest.fixture
def cloud(monkeypatch):
    """An emulator that commands find by themselves, with a bucket; its VMs come at once."""
    with gputrain_emulator.start(wall_clock=True) as running:
        running.add_bucket("my-bucket", location=REGION)
        settings = running.compute.settings
        settings.provision_s = settings.staging_s = settings.delete_s = settings.quick_s = 0.0
        monkeypatch.setenv("GPUTRAIN_ENDPOINT", running.endpoints.url)
        monkeypatch.setenv("GPUTRAIN_PROJECT", "my-project")
        monkeypatch.setenv("GPUTRAIN_BACKENDS", "compute")
        monkeypatch.setenv("GPUTRAIN_REGIONS", REGION)
        monkeypatch.setenv("GPUTRAIN_BUCKET", "gs://my-bucket")
        yield running
        assert not running.dispatcher.failures


@pytest.fixture
def script(folder):
    """The name of a script in the current folder."""

    def write(text="import os\nprint('hello from rank', os.environ['RANK'])\n"):
        (folder / "train.py").write_text(text)
        return "train.py"

    return write
