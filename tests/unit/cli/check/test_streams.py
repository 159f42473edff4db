"""A command whose stdin, stdout or stderr is closed, full or read no more."""

import json
import os
import socket
import subprocess
import sys

import pytest

from gputrain import Local, State, Trainer
from gputrain.cli.screen import Exit

COMMANDS = {"--help": Exit.OK, "gpus --json": Exit.OK, "jobs": Exit.OK, "completion bash": Exit.OK}
REFUSED = {"nonsense": Exit.REQUEST, "show nothing --json": Exit.REQUEST}
FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


def shell(line):
    """A line of a shell in which $G is our command; its status, and what came on stdout and stderr."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        env={**os.environ, "G": f"{sys.executable} -m gputrain"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_takes_everything_and_says_nothing(closed):
    for words, status in {**COMMANDS, **REFUSED}.items():
        done = shell(f"$G {words} {closed}")
        assert done.returncode == status
        assert "Traceback" not in done.stderr
        assert not done.stdout


@FULL
def test_what_stdout_has_no_room_for_is_told():
    for words in COMMANDS:
        done = shell(f"$G {words} > /dev/full")
        assert done.returncode == Exit.REQUEST
        told = ["error: the output could not be written", "  why: No space left on device"]
        assert done.stderr.splitlines()[:2] == told


@FULL
def test_what_stderr_has_no_room_for_changes_nothing():
    for words, status in {"jobs": Exit.OK, **REFUSED}.items():
        assert shell(f"$G {words} 2> /dev/full").returncode == status


@pytest.mark.parametrize("unbuffered", ["", "PYTHONUNBUFFERED=1"])
def test_whoever_reads_may_have_seen_enough(unbuffered):
    done = shell(f"{unbuffered} $G gpus --json | :")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("gone", ["<&- >&- 2>&-", pytest.param("2> /dev/full", marks=FULL)])
def test_a_job_is_carried_out_though_nobody_can_be_told(gone, tmp_path):
    (tmp_path / "train.py").write_text("print('well')\n")
    done = shell(f"cd {tmp_path} && $G submit --nproc-per-node 1 train.py {gone}")
    assert done.returncode == Exit.OK
    (row,) = Trainer(Local(gpus=0)).jobs()
    assert row.state is State.SUCCEEDED


def test_a_stream_of_fewer_letters_is_told_the_rest_by_their_numbers(tmp_path):
    (tmp_path / "train.py").write_text("print('loss \\u2265 \\xe9 \\U0001f600')\n")
    env = {**os.environ, "GPUTRAIN_HOME": str(tmp_path / "home")}

    def said(letters, *words):
        line = [sys.executable, "-m", "gputrain", *words]
        told = {**env, "PYTHONIOENCODING": letters}
        done = subprocess.run(line, env=told, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(letters)

    said("utf-8", "submit", "train.py", "--backend", "local", "--name", "letters")
    for letters in ("ascii", "latin-1", "cp1252"):
        assert "loss \\u2265 " in said(letters, "logs", "letters")
    lines = [json.loads(line) for line in said("latin-1", "logs", "letters", "--json").splitlines()]
    assert any("loss \u2265 \xe9 \U0001f600" in str(line) for line in lines)


def test_whoever_waits_at_a_terminal_is_told_for_whom(tmp_path):
    """The address takes the question and never answers."""
    import pty

    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        line = [sys.executable, "-m", "gputrain", "jobs", "--backend", "vertex", "--project", "my-project"]
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*line, "--region", "us-central1", "--endpoint", url], cwd=tmp_path, stdout=theirs, stderr=theirs
        ) as running:
            os.close(theirs)
            said = b""
            while b"\n" not in said:
                said += os.read(ours, 1000)
            running.kill()
        os.close(ours)
    assert said.startswith(b"waiting for vertex\r\n")
