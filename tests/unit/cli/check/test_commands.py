"""Every command, for people and as JSON, on this machine and against the emulator."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.each import each

ROOT = Path(__file__).parents[4]
SPEC = ("train.py", "--gpu", "L4:2")


def program(*words, env=None, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.Popen([sys.executable, "-m", "gputrain", *words], env=environment, text=True, **options)


def said(*words, env):
    """What a command writes where nobody sits."""
    shown = program(*words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)
    return shown.communicate(timeout=60)[0]


def read_all(terminal):
    """What is written into a pseudo-terminal until all who write have closed it."""
    text = b""
    try:
        while data := os.read(terminal, 65536):
            text += data
    except OSError:  # how Linux says that the last of them did
        pass
    os.close(terminal)
    return text.decode()


def test_a_name_that_no_list_shows_is_not_told_as_none_where_the_list_is_not_whole(cloud, run, read, script):
    script()
    _, job = read("submit", *SPEC, "--detach")
    short = faults.Reshape(change=lambda _: {"nextPageToken": "MA=="})
    order = cloud.fail("storage.objects.list", short, times=None)
    status, _, err = run("cancel", job["name"])
    assert (status, "no job is called" in err, "not whole" in err) == (5, False, True)
    order.cancel()
    assert read("cancel", job["name"])[0] == 0


def test_a_name_stands_for_no_other_job_though_its_own_cannot_be_looked_at(
    cloud, run, read, script, monkeypatch
):
    monkeypatch.setenv("GPUTRAIN_BACKENDS", "vertex")
    words = ("submit", script(), "--gpu", "L4:2", "--detach", "--idempotency-key", "k")
    wanted = make_job_id(TrainingSpec(script="train.py"), "k")
    read(*words, "--name", wanted)  # so the id of another job begins with the whole of the wanted one's
    assert read(*words)[1]["id"] == wanted
    cloud.fail("aiplatform.customJobs.get", faults.Refuse(error=ApiError(403, "drawn")))
    status, _, err = run("cancel", wanted)
    assert (status, "could not look at the job" in err) == (3, True)
    assert not [one for one in cloud.requests if one.method == "aiplatform.customJobs.cancel"]


def test_a_terminal_that_was_shown_nothing_is_told_the_traceback(script):
    script("raise ValueError('the labels are damaged')")
    ours, theirs = pty.openpty()
    quiet = {"GPUTRAIN_PROGRESS": "none", "TERM": "xterm", "NO_COLOR": "1"}
    shown = program("submit", "train.py", "--backend", "local", stderr=theirs, env=quiet)
    os.close(theirs)
    text = b"".join(iter(lambda: read_of(ours), b"")).decode()
    os.close(ours)
    assert shown.wait(60) == 1
    assert "the traceback above" not in text
    assert "Traceback (most recent call last)" in text


def read_of(terminal):
    """What comes from a terminal; nothing once nobody holds its other end."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO, on Linux
        return b""


@pytest.mark.parametrize(("lines", "told"), [("24", 1), ("3", 2)])
def test_a_line_that_fails_is_shown_once_where_the_screen_still_holds_it(
    run, script, monkeypatch, lines, told
):
    monkeypatch.setenv("LINES", lines)
    script("import os\nraise ValueError(f\"of rank {os.environ['RANK']}\")\n")
    status, _, err = run("submit", "train.py")
    assert (status, err.count("raise ValueError(")) == (1, told)
    assert ("what the traceback above names" in err, "first cause" in err) == (told == 1, False)
    assert "why: ValueError: of rank 0" in err
    name = re.search(r"gputrain://local/(\S+)", err)[1]
    assert "first cause" in run("logs", name)[1]
    assert run("show", name)[1].count("raise ValueError(") == 1


def test_ctrl_c_ends_the_watching_and_not_the_job(run, read, script):
    script("import time\nprint('up', flush=True)\ntime.sleep(600)")
    watcher = program("submit", "train.py", "--nproc-per-node", "1", stderr=subprocess.PIPE)
    for line in watcher.stderr:
        if "[0] up" in line:
            break
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 130
    assert "the job goes on" in err
    assert "Traceback" not in err
    (job,) = read("jobs")[1]["jobs"]
    assert job["state"] == "running"
    assert run("cancel", job["name"])[0] == 0
    run("logs", job["name"], "--follow")


def test_a_reader_that_leaves_early_gets_no_traceback():
    writer = program("gpus", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    writer.stdout.close()
    assert writer.stderr.read() == ""
    assert writer.wait(60) == 0


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("submit", "--help")])
def test_help_comes_without_loading_anything(words):
    code = f"""
import sys
before = set(sys.modules)
from gputrain.cli import main
try:
    main({list(words)!r})
except SystemExit as end:
    assert end.code == 0
print(*sorted(set(sys.modules) - before), sep="\\n", file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    loaded = set(done.stderr.split())
    assert not loaded & {"attr", "rich", "google.auth", "requests", "tenacity", "torch", "gputrain.trainer"}
    assert not loaded & {"shutil", "bz2", "lzma"}  # a tenth of the whole time, to learn a terminal's width
    assert {name for name in loaded if name.startswith("gputrain")} <= {
        "gputrain", "gputrain.cli", "gputrain.cli.parser", "gputrain.cli.streams", "gputrain.cli.hints",
    }  # fmt: skip


@each("words", [("--help",), ("submit", "--help")])
@each("columns", [40, 80, 132])
def test_help_is_as_wide_as_the_terminal(words, columns):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown = program(*words, stdout=theirs, env={"COLUMNS": ""})
    os.close(theirs)
    text = read_all(ours)
    assert shown.wait(60) == 0
    assert columns - 12 < max(map(len, text.splitlines())) < columns
    assert text.replace("\r\n", "\n") == said(*words, env={"COLUMNS": str(columns)})


def test_help_that_goes_to_no_terminal_is_eighty_wide():
    assert said("--help", env={"COLUMNS": ""}) == said("--help", env={"COLUMNS": "80"})


@pytest.mark.parametrize(("term", "is_rich"), [("xterm-256color", True), ("dumb", False)])
def test_a_terminal_gets_lines_and_colours_and_a_dumb_one_plain_text(term, is_rich):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    shown = program("gpus", "H100:2", stdout=theirs, env={"TERM": term})
    os.close(theirs)
    assert shown.wait(60) == 0
    text = os.read(ours, 65536).decode()
    os.close(ours)
    assert "a3-highgpu-2g" in text
    assert ("\x1b[1m" in text, "─" in text) == (is_rich, is_rich)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_an_error_is_red_at_a_terminal_unless_no_colour_is_wanted(no_color):
    ours, theirs = pty.openpty()
    shown = program("gpus", "H999", stderr=theirs, env={"TERM": "xterm-256color", "NO_COLOR": no_color})
    os.close(theirs)
    assert shown.wait(60) == 2
    text = os.read(ours, 65536).decode()
    os.close(ours)
    assert text.startswith("error:" if no_color else "\x1b[1;31merror:\x1b[0m")
