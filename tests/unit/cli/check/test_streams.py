"""A command whose stdout or stderr is closed or read no more."""

import os
import subprocess
import sys

from gputrain import Local, State, Trainer


def shell(line):
    """A line of a shell in which $G is our command; its status, and what came on stdout and stderr."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        env={**os.environ, "G": f"{sys.executable} -m gputrain"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_closed_stream_takes_everything_and_says_nothing(tmp_path):
    for words, status in {"jobs": 0, "nonsense": 2}.items():
        done = shell(f"$G {words} <&- >&- 2>&-")
        assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    (tmp_path / "train.py").write_text("print('well')\n")
    assert shell(f"cd {tmp_path} && $G submit --nproc-per-node 1 train.py <&- >&- 2>&-").returncode == 0
    (job,) = Trainer(Local(gpus=0)).jobs()
    assert job.state is State.SUCCEEDED


def test_a_reader_may_have_seen_enough():
    done = shell("$G gpus --json | :")
    assert (done.returncode, done.stderr) == (0, "")
