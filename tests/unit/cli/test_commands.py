"""Every command, for people and as JSON, on this machine and against the emulator."""

import fcntl
import importlib
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import attrs
import pytest

from gputrain.cli import main
from gputrain.cli.parser import COMMANDS, SPEC_FLAGS
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.each import each

ROOT = Path(__file__).parents[3]
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


def test_every_field_of_a_spec_can_be_said():
    flags = {flag[2:].replace("-", "_") for flag, *_ in SPEC_FLAGS}
    words = {"script", "module", "command", "args"}
    assert flags | words == {field.name for field in attrs.fields(TrainingSpec)} - {"function"}


def test_the_program_that_is_installed_is_this_one():
    (home,) = re.findall(r'^gputrain = "([\w.]+):main"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert importlib.import_module(home).main is main


def test_gpus_are_listed_and_found_by_any_name(run, read):
    status, out, _ = run("gpus")
    assert status == 0
    assert "H100-MEGA" in out
    _, document = read("gpus", "nvidia-h100-80gb:2")
    assert [(one["gpu"], one["gpu_count"], one["machine_type"]) for one in document["shapes"]] == [
        ("H100", 2.0, "a3-highgpu-2g")
    ]
    _, document = read("gpus", "--region", "us-central1")
    assert {"L4", "H100"} <= {one["gpu"] for one in document["shapes"]}


def test_a_plan_is_shown_and_nothing_is_made(cloud, run, read, script):
    script()
    status, out, _ = run("plan", *SPEC)
    assert (status, out.splitlines()[0]) == (0, "Plan for train.py")
    _, document = read("plan", *SPEC, "--provisioning-model", "spot", "--num-nodes", "2")
    best = document["candidates"][0]
    assert (best["provisioning_model"], best["num_nodes"], best["quota"]) == ("spot", 2, "fits")
    assert "would run on" in run("plan", *SPEC, "--explain")[1]
    assert cloud.compute.vms == {}


def test_a_plan_with_no_candidate_says_why_and_exits_2(cloud, read, script):
    script()
    status, document = read("plan", "train.py", "--gpu", "H100:3")
    assert (status, document["candidates"]) == (2, [])
    assert document["refusals"][0]["fix"] == "counts that exist: 1, 2, 4, 8"


def test_quotas_are_read(cloud, read):
    status, document = read("quotas", "--gpu", "H100:8", "--num-nodes", "2", "--provisioning-model", "spot")
    assert status == 0
    ((quota),) = document["quotas"]
    assert (quota["gpu"], quota["need"], quota["verdict"]) == ("H100", 16, "fits")


def test_doctor_exits_0_where_all_is_well_and_3_with_the_fix_where_not(cloud, run, read):
    assert read("doctor")[1]["is_ok"] is True
    status, out, _ = run("doctor", "--bucket", "gs://gone")
    assert status == 3
    made = (
        """  curl --data '{"name":"gone","location":"us-central1"}' $GPUTRAIN_ENDPOINT/_emulator/add_bucket"""
    )
    assert made in out.splitlines()
    assert read("doctor", "--bucket", "gs://gone")[1]["is_ok"] is False


def test_a_name_that_no_list_shows_is_not_told_as_none_where_the_list_is_not_whole(cloud, run, read, script):
    script()
    _, job = read("submit", *SPEC, "--detach")
    short = faults.Reshape(change=lambda _: {"nextPageToken": "MA=="})
    order = cloud.fail("storage.objects.list", short, times=None)
    status, _, err = run("cancel", job["name"])
    assert (status, "no job is called" in err, "not whole" in err) == (5, False, True)
    order.cancel()
    assert read("cancel", job["name"])[0] == 0


def test_a_job_is_submitted_listed_and_cancelled(cloud, run, read, script):
    script()
    status, job = read("submit", *SPEC, "--detach", "--name", "bert", "--", "--lr", "3e-4")
    assert (status, job["state"], job["attempts"][-1]["answer"]) == (0, "queued", "accepted")
    _, listed = read("jobs", "--name", "bert")
    assert [one["uri"] for one in listed["jobs"]] == [job["uri"]]
    assert job["name"] in run("jobs")[1]
    status, _, told = run("cancel", "")  # of a variable that is not set
    assert (status, "no job is called ''" in told) == (2, True)
    assert read("cancel", job["name"])[1]["uri"] == job["uri"]
    cloud.clock.advance(300)
    assert read("jobs")[1]["jobs"][0]["state"] == "cancelled"
    assert any(b"3e-4" in seen.body for seen in cloud.requests)


def test_the_same_key_gives_the_same_job(cloud, read, script):
    script()
    words = ("submit", *SPEC, "--detach", "--idempotency-key", "monday")
    assert read(*words)[1]["uri"] == read(*words)[1]["uri"]


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


def test_what_no_job_needs_is_shown_and_removed_once_that_is_said(cloud, run, read, script):
    script()
    _, job = read("submit", *SPEC, "--detach")
    vm = cloud.compute.find_vm(f"{job['name']}-0-0")
    cloud.power_off(vm.name)
    cloud.clock.advance(300)
    _, would = read("clean-up")
    assert (would["removed"], [one["name"] for one in would["orphans"]]) == (False, [vm.name])
    status, out, err = run("clean-up")
    assert (status, "--yes" in err) == (0, True)
    assert "Would be removed" in out
    assert vm.name in run("clean-up", "--yes")[1]
    cloud.clock.advance(300)
    told = {"removed": True, "backends": ["compute"], "left_out": [], "orphans": []}
    assert read("clean-up", "--yes")[1] == told


def test_lists_say_which_backends_were_looked_at_and_which_were_not(cloud, run):
    alone = "looked at local; not at compute (--backend compute) or "
    for words in (["jobs"], ["clean-up", "--yes"]):
        assert alone in run(*words, "--backend", "local")[2]
        assert "looked at compute; not at local (--backend local)" in run(*words, "--backend", "compute")[2]
        status, out, err = run(*words, "--backend", "local", "--json")
        assert (status, json.loads(out)["backends"], err) == (0, ["local"], "")


def test_a_local_job_streams_its_log_and_ends_with_0(run, script):
    script()
    status, out, err = run("submit", "train.py", "--nproc-per-node", "2")
    assert status == 0
    assert {"[0] hello from rank 0", "[1] hello from rank 1"} <= set(err.splitlines())
    assert "succeeded" in out


def test_a_job_that_fails_ends_with_1_and_its_own_traceback(run, read, script):
    script("raise ValueError('the labels are damaged')")
    status, _, err = run("submit", "train.py")
    assert status == 1
    assert "ValueError: the labels are damaged" in err
    assert "gputrain/cli" not in err
    status, job = read("submit", "train.py")
    assert (status, job["state"]) == (1, "failed")


def test_the_message_of_a_script_is_told_word_for_word(run, script):
    message = "bad config gpus=3 network=eth0 num_nodes=2 experiment=foo"
    script(f"raise ValueError({message!r})")
    _, _, err = run("submit", "train.py")
    assert f"  why: ValueError: {message}\n" in err


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


def test_the_log_of_a_job_is_read_by_its_name_or_its_uri(run, script):
    script()
    status, out, _ = run("submit", "train.py", "--nproc-per-node", "2", "--json")
    job = json.loads(out)
    assert (status, job["state"]) == (0, "succeeded")
    assert "[1] hello from rank 1" in run("logs", job["name"])[1]
    _, out, _ = run("logs", job["uri"], "--rank", "1", "--follow", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(one["rank"], one["message"]) for one in lines] == [(1, "hello from rank 1")]


def test_without_a_script_what_follows_the_dashes_is_a_command(run):
    status, _, err = run("submit", "--name", "echo", "--", "echo", "--json", "hello there")
    assert status == 0
    assert "--json hello there" in err


def test_pairs_reach_the_ranks(run, script):
    script("import os; print(os.environ['GREETING'])")
    _, _, err = run("submit", "train.py", "--nproc-per-node", "1", "--env", "GREETING=a=b c")
    assert "[0] a=b c" in err


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


@each("command", COMMANDS)
def test_help_of_every_command_holds_at_forty_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 38] == []


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
