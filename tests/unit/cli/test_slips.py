"""A slip at the keyboard is answered with what to type instead."""

import os
import re
import sys
from pathlib import Path

import pytest

from gputrain import Local, Trainer
from gputrain.cli import completion, main
from gputrain.cli.parser import parsers, read as read_words
from tests.each import each


@each(
    ("words", "said"),
    [
        ("submit train.py --lr 3", "follows --: gputrain submit train.py -- --lr 3"),
        (
            "submit --lr 3 train.py --num-nodes 3",
            "follows --: gputrain submit train.py --num-nodes 3 -- --lr 3",
        ),
        ("submit train.py --lr=3 --epochs 5 -- a", "-- --lr=3 --epochs 5 a"),
        ("plan -m pkg.train --lr 3", "gputrain plan -m pkg.train -- --lr 3"),
        ("submit train.py data.csv", "gputrain submit train.py -- data.csv"),
        ("submit train.py --nodes 2", "did you mean --num-nodes?"),
        ("submit train.py --env A=1 B=2", "each value with its flag: --env B=2\n"),
        ("submit train.py --gpu none", "leave --gpu out: on Local, ranks run on the CPUs of this machine"),
        ("submit train.py --nnodes=2", "did you mean --num-nodes?"),
        ("submit train.py --gpus H100:2", "did you mean --gpu?"),
        ("submit train.py --output_dir out", "did you mean --output-dir?"),
        ("submit train.py --max-cots 3", "did you mean --max-cost?"),
        ("submit train.py --node_rank 0", "leave --node_rank out"),
        ("submit train.py --rdzv_backend c10d --rdzv-id=7 --lr 3", "-- --lr 3"),
        (
            "submit --standalone train.py --nproc_per_node=2",
            "by itself\n       gputrain submit train.py -",
        ),
        ("submit train.py --nproc_per_node gpu", "leave it out: one rank a GPU"),
        ("submit train.py --nproc-per-node=cpu", f"--nproc-per-node {os.cpu_count()}"),
        ("quotas", "name a cloud: --backend vertex, with the project"),
        ("submit scr/train.py", "a Python file that exists (there is no folder"),
        ("submit train.py --num 3", "gputrain submit does not know --num"),
        ("jobs --nane x", "did you mean --name?"),
        ("jobs x", "gputrain jobs --help"),
        ("jobs -- x", "takes nothing after --"),
        ("list", "did you mean gputrain jobs?"),
        ("status x", "did you mean gputrain show?"),
        ("sumbit train.py", "did you mean gputrain submit?"),
        ("train.py --lr 3", "gputrain submit train.py --lr 3"),
        ("--backend gcp", "put flags behind it"),
        ("", "one of gpus, "),
        ("logs", "JOB"),
        ("plan train.py --num-nodes two", "--num-nodes is a number, and not 'two'"),
        ("plan train.py --gpu", "--gpu wants a value"),
        ("completion tcsh", "and not 'tcsh'"),
        ("jobs --state runing", "error: --state runing: one of queued, "),
        ("jobs --state runing", "Fix: --state running\n"),
        ("logs x -n 3", "-n: did you mean --tail?"),
        ("help submit", "fix: gputrain submit --help"),
        ("version", "fix: gputrain --version"),
        (
            "submit python train.py --num-nodes 2",
            "themselves\n       gputrain submit train.py --num-nodes 2\n",
        ),
        (
            "submit torchrun --nproc_per_node=2 train.py --lr 3",
            "gputrain submit train.py --nproc-per-node=2 -- --lr 3",
        ),
        ("submit python3 -u -m pkg.train", "gputrain submit -m pkg.train\n"),
        ("map --name nosuch", "there is no experiment nosuch in file://"),
        ("gpus H100 --region mars", "--region mars: a region that the catalog knows. Fix: --region "),
        ("gpus --region us-centrl1", "Fix: --region us-central1\n"),
        ("show nosuch", "no job is called 'nosuch'\n  why: looked at local"),
        ("plan train.py --gpu h100x8", "write 'H100:8'"),
        ("plan train.py --gpu 8xH100", "write 'H100:8'"),
        ("plan --backend gcp", "did you mean vertex or compute?"),
        ("build", "--base: a base or a Dockerfile"),
    ],
)
def test_a_slip_exits_2_and_says_what_to_type(run, words, said):
    status, out, err = run(*words.split())
    assert (status, out) == (2, "")
    assert said in err
    assert run(*words.split())[0] == 2


@each(
    ("word", "said"),
    [
        (".", "name a Python file in it"),
        ("train", "did you mean train.py?"),
        ("run.sh", "Fix: -- sh run.sh"),
        ("a.ipynb", "jupyter nbconvert --to script a.ipynb"),
        ("-m train.py", "-m train\n"),
        ("-- ./run.sh", "chmod +x ./run.sh"),
    ],
)
def test_what_cannot_be_run_is_told_with_what_can(run, script, folder, word, said):
    script()
    (folder / "run.sh").write_text("echo\n")
    (folder / "a.ipynb").write_text("{}")
    status, _, err = run("submit", *word.split())
    assert (status, said in err) == (2, True), err


def test_gpus_where_there_are_none_lead_to_the_cpu_or_to_a_cloud(run, script, monkeypatch):
    monkeypatch.setenv("PATH", "")
    err = run("submit", script(), "--gpu", "1")[2]
    assert (
        "there is no GPU here\n  fix: leave --gpu out to run CPU ranks, or ask a cloud: --backend vertex"
        in err
    )


def test_a_fault_in_a_document_is_mended_in_words_of_the_command_line(read, script):
    (fault,) = read("submit", script(), "--num-nodes", "0")[1]["error"]["faults"]
    assert (fault["field"], fault["fix"]) == ("num_nodes", "--num-nodes 2")


def test_a_folder_that_is_gone_is_told(run, folder):
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    status, _, err = run("submit", "--", "/bin/echo")
    assert (status, err.startswith("error: the current folder is gone")) == (2, True)


CLOUD = ["--backend", "vertex", "--project", "my-project"]


def test_a_wrong_region_is_one_reason_and_not_one_for_each_machine(run, script):
    words = ["submit", script(), "--gpu", "L4:1", *CLOUD, "--region", "us-west9", "--bucket", "gs://b-1"]
    err = run(*words)[2]
    assert err.count("not to be had in the places you allow") == 1
    assert "1 x L4 on g2-standard-4 as standard, " in err
    assert re.search(r" and \d+ more: not to be had", err)


def test_a_cloud_without_a_gpu_is_told_once_and_leads_here(run, script):
    err = run("submit", script(), *CLOUD, "--region", "us-central1", "--bucket", "gs://b-1")[2]
    assert err.splitlines()[1:] == [
        "  vertex: gpu: it runs on machines with GPUs, and none is named",
        "  fix: --gpu L4:1, or --backend local for CPU ranks",
    ]


def test_a_slip_as_json_is_a_document(read):
    status, document = read("submit", "train.py", "--gpus", "L4:1")
    assert status == 2
    assert "--gpu?" in document["error"]["fix"]


def test_torchruns_underscores_are_ours_where_the_flag_is(read, script):
    script()
    _, plain = read("plan", "train.py", "--nproc-per-node", "3")
    _, same = read("plan", "train.py", "--nproc_per_node=3")
    assert same["candidates"] == plain["candidates"]
    assert same["candidates"][0]["nproc_per_node"] == 3


def test_what_follows_the_dashes_keeps_its_spelling():
    own = ("--num_nodes=2", "--max_restarts", "3", "--", "--nproc_per_node")
    options = read_words(["plan", "train.py", "--nproc_per_node=3", "--", *own])
    assert (options.nproc_per_node, tuple(options.rest)) == (3, own)


def test_the_value_of_a_flag_is_no_stranger_whatever_it_looks_like(run, script):
    script()
    assert run("plan", "train.py", "--name", "list")[0] == 0
    assert "--max-cost -1.0: a positive number" in run("plan", "train.py", "--max-cost", "-1")[2]


def test_a_plan_whose_only_trouble_is_the_code_exits_2(run, read):
    status, document = read("plan", "nofile.py")
    assert (status, [one["field"] for one in document["faults"]]) == (2, ["script"])
    assert document["candidates"]
    assert run("plan", "nofile.py")[0] == 2


def test_a_package_that_is_missing_here_is_told_by_the_plan_with_the_command(run, read, script):
    script("import os, json, nosuchpackage\nimport yaml_of_nobody.part\n")
    told = (
        f"nosuchpackage, yaml_of_nobody, which is not installed here: {sys.executable} -m pip install nosuchp"
    )
    assert any(told in one for one in read("plan", "train.py")[1]["warnings"])
    script("import os, attrs\n")
    assert read("plan", "train.py")[1]["warnings"] == []


def test_a_package_that_a_rank_missed_is_for_the_python_of_the_job_whoever_looks(run, script, monkeypatch):
    script("import nosuchpackage\n")
    command = f"{sys.executable} -m pip install nosuchpackage"
    assert run("submit", "train.py", "--name", "lacks")[0] == 1
    monkeypatch.setattr(sys, "executable", "/elsewhere/bin/python")
    assert f"fix: {command}; " in run("wait", Trainer(Local(gpus=0)).jobs()[0].uri)[2]


def test_a_package_that_a_rank_misses_is_told_with_the_command_that_the_plan_names(run, read, script):
    script("import os, nosuchpackage\n")
    command = f"{sys.executable} -m pip install nosuchpackage"
    assert command in read("plan", "train.py")[1]["warnings"][0]
    status, _, err = run("submit", "train.py")
    assert (status, f"fix: {command}; " in err) == (1, True)
    script("import json.nosuchpart\n")
    assert "pip install" not in run("submit", "train.py")[2]


def test_a_script_that_is_named_from_here_and_not_from_its_source_dir_is_told_how(run, script, folder):
    (folder / "src").mkdir()
    (folder / "src" / "hello.py").write_text("print(")
    assert (
        "Fix: it is named from --source-dir on: hello.py"
        in run("submit", "src/hello.py", "--source-dir", "src")[2]
    )
    assert "what Python 3." in run("submit", "src/hello.py")[2]


def test_what_cannot_be_had_is_told_in_flags(run, script):
    script()
    assert "leave --gpu out to run CPU ranks" in run("plan", "train.py", "--gpu", "H100:2")[1]


def test_every_command_helps(capsys):
    _, commands = parsers()
    for name in commands:
        with pytest.raises(SystemExit) as caught:
            main([name, "--help"])
        assert caught.value.code == 0
        assert name in capsys.readouterr().out


def test_names_of_jobs_elsewhere_are_completed_once_they_were_listed(cloud, read, run, script, capsys):
    script()
    _, job = read("submit", "train.py", "--gpu", "L4:1", "--detach", "--name", "bert")
    assert run("completion", "words", "--", "show", "b")[1].split() == [job["id"]]


def test_names_that_are_no_text_are_none_and_keep_no_job_from_being_watched(run, script):
    script()
    seen = Path(completion._home()) / "seen"
    seen.parent.mkdir(exist_ok=True)
    seen.write_bytes(b"\xff")
    assert run("submit", "train.py", "--nproc-per-node", "1", "--detach")[0] == 0
    assert run("completion", "words", "--", "show", "z")[0] == 0


def test_a_script_for_each_shell_is_printed(run):
    for shell in ("bash", "zsh", "fish"):
        assert "gputrain completion words -- " in run("completion", shell)[1]


def test_one_job_is_shown_waited_for_and_measured(run, read, script):
    script('import os, sys\nprint(\'GPUTRAIN_METRIC {"step": 1, "loss": 0.5}\')\n')
    _, job = read("submit", "train.py", "--nproc-per-node", "1")
    shown, waited = read("show", job["id"])[1], read("wait", job["uri"])[1]
    assert shown == waited
    assert {**shown, "attempts": None} == {**job, "attempts": None}  # whose time is that of the record
    _, metrics = read("metrics", job["id"])
    row = {"step": 1, "loss": 0.5}
    assert metrics == {"count": 1, "last": row, "rows": [row], "progress": None}
    assert "loss" in run("metrics", job["id"])[1]


def test_why_a_job_failed_is_in_every_document_and_shown(run, read, script):
    script("print('step 7', flush=True)\nraise ValueError('the labels are damaged')")
    status, job = read("submit", "train.py", "--nproc-per-node", "1")
    assert (status, job["failure"]["kind"], job["failure"]["rank"]) == (1, "exception", 0)
    assert "the labels are damaged" in job["failure"]["traceback"]
    told = [read("show", job["id"])[1], read("wait", job["id"])[1], read("cancel", job["id"])[1],
            read("jobs")[1]["jobs"][0]]  # fmt: skip
    assert [one["failure"] for one in told] == [job["failure"]] * 4
    status, out, _ = run("show", job["id"])
    assert (status, "ValueError: the labels are damaged" in out) == (0, True)
    assert f"gputrain logs {job['uri']}" in out
    assert "attach(" not in out


def test_waiting_for_no_longer_than_that_exits_5_and_the_job_goes_on(run, read, script):
    script("import time\ntime.sleep(600)")
    _, job = read("submit", "train.py", "--nproc-per-node", "1", "--detach")
    status, _, err = run("wait", job["id"], "--timeout", "1s")
    assert (status, f"gputrain wait {job['uri']}" in err) == (5, True)
    run("cancel", job["id"])
