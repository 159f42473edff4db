"""What the emulator writes goes with it, however it ends; what is not its own stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

import gputrain_emulator
from gputrain_emulator.folders import PREFIX, OwnFolder, sweep

COMMAND = [sys.executable, "-m", "gputrain_emulator", "--port", "0"]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    monkeypatch.undo()


def test_a_later_start_removes_what_a_killed_emulator_left(temporary: Path) -> None:
    living = OwnFolder()
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, text=True, env={"TMPDIR": str(temporary)}
    ) as process:
        assert process.stdout is not None
        found = re.search(r"at (http\S+);", process.stdout.readline())
        assert found is not None
        url = found[1]
        requests.post(f"{url}/_emulator/add_bucket", json={"name": "my-bucket"}, timeout=30)
        path = "/upload/storage/v1/b/my-bucket/o?uploadType=media&name=a"
        assert requests.post(url + path, b"x" * 100_000, timeout=30).ok
        process.kill()
    left = [one for one in temporary.iterdir() if one != living.path]
    assert [one.name.startswith(PREFIX) for one in left] == [True]
    with gputrain_emulator.start():
        while left[0].exists():
            time.sleep(0.01)
    assert living.path.exists(), "somebody's who lives"
    living.close()
    assert list(temporary.iterdir()) == []


def test_a_sweep_removes_a_folder_that_nobody_may_read(temporary: Path) -> None:
    closed = temporary / f"{PREFIX}x" / "work"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (closed / "link").symlink_to("/nowhere")
    closed.chmod(0)
    sweep()
    assert list(temporary.iterdir()) == []


def test_a_sweep_follows_no_link_and_touches_nobody_elses(temporary: Path) -> None:
    mine = temporary / "mine"
    mine.mkdir(mode=0o755)
    (mine / "precious").touch()
    (temporary / f"{PREFIX}link").symlink_to(mine)
    (temporary / f"{PREFIX}file").touch()
    (temporary / "gputrain-emulator-other").mkdir()
    os.mkfifo(temporary / f"{PREFIX}pipe")
    trap = temporary / f"{PREFIX}trap"
    trap.mkdir()
    (trap / "way").symlink_to(mine)
    if os.geteuid() == 0:
        (temporary / f"{PREFIX}theirs").mkdir()
        os.chown(temporary / f"{PREFIX}theirs", 65534, 65534)
    before = sorted(temporary.iterdir())
    sweep()
    before.remove(trap)
    assert sorted(temporary.iterdir()) == before
    assert (mine / "precious").exists()
    assert mine.stat().st_mode & 0o777 == 0o755
