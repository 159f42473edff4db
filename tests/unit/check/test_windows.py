"""The clouds work from a client on Windows; `Local` is refused there by name.

What Python's own subprocess needs on this machine stays: it runs git.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gputrain_emulator

ROOT = Path(__file__).parents[3]

WINDOWS = """
import asyncio, multiprocessing, os, random, signal, ssl, subprocess, sys, tempfile, threading
import concurrent.futures.thread, logging  # which ask at their import where they are
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for module, names in (
    (os, "fork forkpty register_at_fork geteuid getuid getpgid killpg setsid set_blocking sysconf statvfs "
         "O_NOFOLLOW O_CLOEXEC O_DIRECTORY O_NONBLOCK uname chown"),
    (signal, "SIGCHLD SIGHUP SIGQUIT SIGPIPE SIGURG SIGRTMIN pthread_sigmask sigtimedwait alarm"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
"""
"""What Python has not on Windows: paths, processes and line ends stay those of this machine."""


THERE = ("entrypoint.py", "runtime", "ddp", "backends/local", "jobstore/folder.py")
"""What runs on Linux alone, or for `Local` alone."""


def test_the_client_calls_nothing_that_windows_lacks():
    root = ROOT / "gputrain"
    files = [str(one) for one in root.rglob("*.py") if not one.relative_to(root).as_posix().startswith(THERE)]
    words = ["--platform", "win32", "--follow-imports", "silent", "--cache-dir", ".mypy_cache/win32"]
    told = subprocess.run(
        [sys.executable, "-m", "mypy", *words, *files], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout


def test_local_is_refused_by_name_on_windows():
    told = _on_windows("from gputrain import Local\nLocal()\n")
    assert "Local does not run on" in told.stderr
    assert "WSL" in told.stderr


@pytest.mark.parametrize("backend", ["vertex", pytest.param("compute", marks=pytest.mark.soak)])
def test_the_clouds_work_from_a_client_on_windows(tmp_path, backend):
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / "gputrain.toml").write_text("[vertex]\nmanagement_fee = 0.2\n")
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.add_bucket("my-bucket", location="us-central1")
        here = {"ENDPOINT": cloud.endpoints.url, "PROJECT": cloud.project, "BACKENDS": backend}
        here |= {"REGIONS": "us-central1", "BUCKET": "gs://my-bucket"}
        env = {**os.environ, **{f"GPUTRAIN_{name}": value for name, value in here.items()}}
        made = _cli(["submit", "train.py", "--gpu", "L4:1", "--detach"], tmp_path, env)
        assert made.returncode == 0, made.stdout + made.stderr
        name = re.search(r"\btrain-[a-z0-9-]+", made.stdout)[0]
        for words in (["jobs"], ["show", name], ["cancel", name]):
            told = _cli(words, tmp_path, env)
            assert told.returncode == 0, told.stdout + told.stderr
            assert name in told.stdout


def _cli(words, folder, env):
    return _on_windows(f"from gputrain.cli import main\nsys.exit(main({words!r}))\n", folder, env)


def _on_windows(text, cwd=ROOT, env=None):
    words = [sys.executable, "-c", WINDOWS + text]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
