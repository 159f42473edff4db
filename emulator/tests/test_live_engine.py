"""Images in a container engine: a program that answers like one stands in for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.tests.vertex_jobs import a_job, a_pool, client_of, create
from gputrain_emulator import Cloud
from gputrain_emulator.vertex import State, Vertex

IMAGE = "us-docker.pkg.dev/p/r/train:1"

# Answers `version`, knows one image, runs its command as a process, and writes down how it was called.
DOCKER = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    print(json.dumps(words), file=log)
if words[0] == "image":
    sys.exit(0 if words[-1] == {image!r} else 1)
if words[0] == "run":
    variables = next(word for word in words if word.startswith("--env-file=")).partition("=")[2]
    given = {{w[6:]: os.environ[w[6:]] for w in words if w.startswith("--env=")}}
    rows = [line.rstrip("\\n").partition("=")[::2] for line in open(variables)]
    entrypoint = [word.partition("=")[2] for word in words if word.startswith("--entrypoint=")]
    command = entrypoint + words[words.index({image!r}) + 1 :]
    os.execvpe(command[0], command, {{**dict(rows), **given, "PATH": os.environ["PATH"]}})
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a `docker` first on PATH; the file that it writes its calls into."""
    log = tmp_path / "calls"
    program = tmp_path / "docker"
    program.write_text(DOCKER.format(log=str(log), image=IMAGE))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return log


def run(cloud: Cloud, **container: Any) -> State:
    """Run one replica to its end."""
    pool = a_pool()
    pool["container_spec"] = {"image_uri": IMAGE, **container}
    job_id = create(cloud, client_of(cloud), a_job(pool)).name.rpartition("/")[2]
    job = cloud.world.part(Vertex).jobs[job_id]
    assert cloud.clock.wait_for(lambda: job.ended is not None, 60)
    return job.state


def asked(calls: Path, word: str) -> list[list[str]]:
    """The calls that began with `word`."""
    return [words for words in map(json.loads, calls.read_text().splitlines()) if words[0] == word]


def test_the_image_runs_with_vertex_environment_and_is_never_pulled(live: Cloud, calls: Path) -> None:
    script = 'test -n "$CLUSTER_SPEC" && test "$MINE" = "a b" && test -n "$GCE_METADATA_HOST"'
    variables = [{"name": "MINE", "value": "a b"}]
    assert run(live, command=["sh", "-c"], args=[script], env=variables) is State.SUCCEEDED
    (words,) = asked(calls, "run")
    assert "--pull=never" in words
    assert "--network=host" in words
    assert words[words.index(IMAGE) - 1] == "--entrypoint=sh"
    assert words[words.index(IMAGE) + 1 :] == ["-c", script]
    assert [word for word in words if word.startswith("--add-host=metadata.google.internal:127.")]


def test_no_value_of_the_environment_is_on_the_command_line(live: Cloud, calls: Path) -> None:
    script = 'test "$TOKEN" = sesame && test "$(echo "$KEY" | wc -l)" = 2'
    values = [{"name": "TOKEN", "value": "sesame"}, {"name": "KEY", "value": "open\nplease"}]
    assert run(live, command=["bash", "-c"], args=[script], env=values) is State.SUCCEEDED
    assert "=sesame" not in calls.read_text()
    assert "please" not in calls.read_text()


def test_an_image_that_is_not_here_leaves_the_command_to_this_machine(live: Cloud, calls: Path) -> None:
    assert run(live, image_uri="some/other:image", command=["true"]) is State.SUCCEEDED
    assert asked(calls, "run") == []
