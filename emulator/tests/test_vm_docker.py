"""The `docker` of a live VM: Docker's words as Podman takes them, tried without an engine."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gputrain_emulator.live import podman

# Writes down its words and its configuration.
PODMAN = """#!/bin/sh
printf '%s\\n' "$@" > {said}
echo "$CONTAINERS_CONF" > {said}.conf
"""

Say = Callable[..., list[str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Says words to a VM's docker; what Podman was told after the address of its socket."""
    said = tmp_path / "said"
    (tmp_path / "podman").write_text(PODMAN.format(said=said))
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setattr(podman, "PLACES", str(tmp_path))

    def docker(*words: str, gpus: int = 1, **environment: str) -> list[str]:
        program = tmp_path / "docker"
        program.write_text(podman.client("group-1", gpus=gpus, socket="/s", configuration="/c"))
        program.chmod(0o755)
        subprocess.run([program, *words], check=True, env={**os.environ, **environment})
        assert (tmp_path / "said.conf").read_text() == "/c/containers.conf\n"
        told = said.read_text().splitlines()
        assert told[:3] == ["--remote", "--url", "unix:///s"]
        return told[3:]

    return docker


def test_what_runs_is_said_as_it_was_but_for_gpus_and_limits(say: Say) -> None:
    files, processes = (
        resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    limits = ["--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"]
    asked = ["--rm", "--init", "--network", "host", "--volume", "/a:/a", "--env", "X"]
    program = ["image:1", "--gpus", "all", "--privileged"]
    told = say("run", *asked[:2], "--gpus", "all", *asked[2:], "--ulimit", "stack=1024", *program)
    assert told == ["run", "--cgroup-parent", "/group-1", *limits, *asked, "--ulimit", "stack=1024", *program]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["run", "--privileged", "image"], "does not allow docker run --privileged"),
        (["run", "--pid=host", "image"], "does not allow docker run --pid"),
        (["run", "--rm=false", "image"], "does not allow docker run --rm"),
        (["swarm", "init"], "does not know docker swarm"),
        ([], "does not know docker"),
        (["run", "--gpus", "all", "image"], 'could not select device driver "" with capabilities: [[gpu]]'),
    ],
)
def test_what_is_refused_is_refused_in_dockers_way(
    say: Say, tmp_path: Path, words: list[str], answer: str
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        say(*words, gpus=0)
    assert caught.value.returncode == 125
    done = subprocess.run([tmp_path / "docker", *words], capture_output=True, text=True)
    assert answer in done.stderr
    assert not (tmp_path / "said").exists()


def test_without_an_engine_docker_says_why(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text(podman.client("group-1", gpus=1, refusal="not installed: podman"))
    program.chmod(0o755)
    done = subprocess.run([program, "pull", "image"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "docker: no container engine on this emulated machine: not installed: podman\n"
