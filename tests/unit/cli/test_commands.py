"""Every command, for people and as JSON, on this machine and against the emulator."""

import importlib
import json
import re
from pathlib import Path

import pytest

from gputrain.cli import main
from gputrain.cli.parser import COMMANDS
from tests.each import each

ROOT = Path(__file__).parents[3]
SPEC = ("train.py", "--gpu", "L4:2")


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


@each("command", COMMANDS)
def test_help_of_every_command_holds_at_forty_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 38] == []
