"""Which engine of docker's an image is pushed from: the one that has built it."""

import json
import os
import stat

import pytest

from gputrain import Image
from gputrain.errors import RequestError

DOCKER = """#!/bin/sh
echo "$1 $(cat "${DOCKER_CONFIG:-$HOME/.docker}"/config.json)"
cat "${DOCKER_CONFIG:-$HOME/.docker}"/contexts/meta/*/meta.json
[ "$1" != push ]
"""
"""A program that tells what docker finds, and pushes nothing."""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Docker's settings of a user who works with colima."""
    home = tmp_path / "home"
    meta = home / ".docker" / "contexts" / "meta" / "abc"
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": "colima"}) + "\n")
    (home / ".docker" / "config.json").write_text('{"currentContext": "colima", "credsStore": "osxkeychain"}')
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    assert program.stat().st_mode & stat.S_IXUSR
    return home / ".docker"


def pushed(trainer, context):
    """What docker found when it pushed: its settings, and its contexts."""
    with pytest.raises(RequestError) as caught:
        trainer.build(Image(dockerfile=context / "Dockerfile", builder="docker"), create_repository=True)
    lines = [line.strip() for line in caught.value.why.splitlines()]
    settings = next(line for line in lines if line.startswith("push "))
    return json.loads(settings[len("push ") :]), [line for line in lines if '"Name"' in line]


def test_the_engine_that_has_built_pushes_with_our_token_alone(trainer, context, docker):
    settings, contexts = pushed(trainer, context)
    assert settings["currentContext"] == "colima"
    assert contexts == ['{"Name": "colima"}']
    assert list(settings["auths"]) == ["us-central1-docker.pkg.dev"]
    assert "credsStore" not in settings
    assert "auths" not in (docker / "config.json").read_text()
