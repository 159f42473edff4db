"""What the guest says to docker on its VM; a program of that name writes it down."""

import json
import os
import subprocess

import pytest

from gputrain.runtime import container
from gputrain_emulator.live.addresses import serve_metadata
from gputrain_emulator.metadata import Account, Metadata

DOCKER = """#!/usr/bin/env python3
import json, os, sys
kept = os.environ["DOCKER_CONFIG"]
row = {"words": sys.argv[1:], "input": sys.stdin.read(), "kept": kept, "is_kept": os.path.isdir(kept)}
with open(LOG, "a") as log:
    print(json.dumps(row), file=log)
"""


@pytest.fixture
def said(tmp_path, monkeypatch):
    """All that docker was told so far."""
    log = tmp_path / "log"
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER.replace("LOG", repr(str(log))))
    program.chmod(0o755)
    account = Account(email="vm@p", scopes=(), mint=lambda: ("sesame", 3599))
    server = serve_metadata(Metadata(read=lambda: {"instance": {}}, accounts={"vm@p": account}))
    monkeypatch.setenv("GCE_METADATA_HOST", server.host)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(container, "PULL_PAUSES_S", (0.01, 0.01, 0))
    yield lambda: [json.loads(line) for line in log.read_text().splitlines()]
    server.close()


def call(command, env, given):
    done = subprocess.run(command, env=env, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize(
    "registry", ["us-docker.pkg.dev", "europe-west4-docker.pkg.dev", "gcr.io", "eu.gcr.io"]
)
def test_googles_registries_are_given_the_vms_token_on_standard_input(said, registry):
    container.fetch(f"{registry}/p/r/i:1", call)
    login, pull = said()
    assert login["words"] == ["login", "-u", "oauth2accesstoken", "--password-stdin", f"https://{registry}"]
    assert login["input"] == "sesame"
    assert pull["words"] == ["pull", "--quiet", f"{registry}/p/r/i:1"]
    assert pull["kept"] == login["kept"]
    assert login["is_kept"]
    assert not os.path.exists(login["kept"])  # the login is forgotten


@pytest.mark.parametrize(
    "image",
    [
        "evilpkg.dev/p/i",
        "evilgcr.io/i",
        "us-docker.pkg.dev.evil.com/i",
        "docker.io/i",
        "127.0.0.1:5000/i",
        "i:1",
    ],
)
def test_no_other_registry_sees_a_token(said, image):
    container.fetch(image, call)
    assert [row["words"][0] for row in said()] == ["pull"]
    assert said()[0]["input"] == ""


def test_values_stay_off_the_command_line_and_in_a_file_of_roots(tmp_path):
    env = {"PATH": "/mine", "KEY": "a\nb", "BYTES": "\udcff"}
    words = container.words("image:1", None, ["-c", "text", "{}"], env, "/root-folder", str(tmp_path))
    path = tmp_path / "environment.json"
    assert json.loads(path.read_text()) == env
    assert path.stat().st_mode & 0o777 == 0o600
    assert words[-8:] == ["python3", "image:1", "-c", container.ENTER, str(path), "-c", "text", "{}"]
    assert not {"/mine", "a\nb"} & set(words)
    assert "--privileged" not in words
