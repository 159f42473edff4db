"""A slip at the keyboard is answered with what to type instead."""

import sys

from tests.each import each


@each(
    ("words", "said"),
    [
        ("submit train.py --lr 3", "the script gets follows --: gputrain submit train.py -- --lr 3\n"),
        ("plan -m pkg.train --lr=3", "gputrain plan -m pkg.train -- --lr=3\n"),
        ("submit train.py data.csv", "gputrain submit train.py -- ..."),
        ("submit train.py --nodes 2", "did you mean --num-nodes?"),
        ("submit train.py --output_dri out", "'--output-dir'"),
        ("submit train.py --num 3", "No such option '--num'"),
        ("submit train.py --spot", "did you mean --provisioning-model spot?"),
        ("logs x -n 3", "did you mean --tail?"),
        ("jobs x", "gputrain jobs --help"),
        ("jobs -- x", "takes nothing after --"),
        ("sumbit train.py", "Did you mean 'submit'?"),
        ("train.py --lr 3", "gputrain submit train.py --lr 3"),
        ("logs", "Missing argument 'JOB'"),
        ("plan train.py --num-nodes two", "'two' is not a valid integer"),
        ("plan train.py --gpu", "requires an argument"),
        ("plan train.py --env X", "expected NAME=VALUE"),
        ("jobs --state runing", "'runing' is not one of 'queued', "),
        (
            "plan train.py --num-nodes 0",
            "--num-nodes: 0 is not valid. Expected a whole number from 1 to 1000. Try: --num-",
        ),
        ("plan train.py --max-cost -1", "--max-cost: -1.0 is not valid. Expected a positive number"),
        ("plan train.py --gpu h100x8", "'H100:8'"),
        ("plan --backend gcp", "did you mean vertex or compute?"),
        ("gpus H100 --region mars", "there is no region 'mars'"),
        ("gpus --region us-centrl1", "fix: --region us-central1\n"),
        ("map --name nosuch", "there is no experiment nosuch in file://"),
        ("show nosuch", "there is no job 'nosuch'\n  why: backends: local"),
        ("submit scr/train.py", "script: no folder"),
        ("build", "--base: missing. Expected a base or a Dockerfile"),
    ],
)
def test_a_slip_exits_2_and_says_what_to_type(run, words, said):
    status, out, err = run(*words.split())
    assert (status, out) == (2, "")
    assert said in err


def test_a_slip_as_json_is_a_document(read):
    status, document = read("submit", "train.py", "--gpus", "L4:1")
    assert (status, document["error"]["type"]) == (2, "RequestError")
    assert "--gpu" in document["error"]["fix"]


@each(("alias", "command"), [("ps", "jobs"), ("run", "submit"), ("status", "show"), ("kill", "cancel")])
def test_common_names_of_other_tools_are_aliases(run, alias, command):
    assert f"gputrain {command} " in run(alias, "--help")[1].replace(
        f"gputrain {alias} ", f"gputrain {command} "
    )


def test_torchruns_underscores_are_accepted_and_the_scripts_own_stay(run, script):
    script("import sys\nprint(sys.argv[1:])")
    words = ("--nproc_per_node=1", "--", "--num_nodes=2", "--max_restarts", "3", "--", "--x_y")
    assert "['--num_nodes=2', '--max_restarts', '3', '--', '--x_y']" in run("submit", "train.py", *words)[1]


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


def test_a_script_for_each_shell_is_printed(run):
    for shell in ("bash", "zsh", "fish"):
        assert "_GPUTRAIN_COMPLETE" in run("completion", shell)[1]


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
    documents = [read(word, job["id"])[1] for word in ("show", "wait", "cancel")]
    assert [one["failure"] for one in (*documents, *read("jobs")[1]["jobs"])] == [job["failure"]] * 4
    status, out, _ = run("show", job["id"])
    assert (status, "ValueError: the labels are damaged" in out) == (0, True)


def test_waiting_for_no_longer_than_that_exits_5_and_the_job_goes_on(run, read, script):
    script("import time\ntime.sleep(600)")
    _, job = read("submit", "train.py", "--nproc-per-node", "1", "--detach")
    status, _, err = run("wait", job["id"], "--timeout", "1s")
    assert (status, job["uri"] in err) == (5, True)
    run("cancel", job["id"])
