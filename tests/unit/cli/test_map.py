"""`gputrain map`: an experiment from words."""

from gputrain import Trainer
from tests.each import each

REPORTS = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--kind")
asked = parser.parse_args()
assert asked.lr < 0.5, "too fast"
print("GPUTRAIN_METRIC " + json.dumps({"step": 1, "loss": asked.lr}))
"""
WORDS = ("map", "train.py", "--name", "lr-scan", "--grid", "lr=0.1,3e-1", "--grid", "kind=adam",
         "--max-parallel", "1")  # fmt: skip


def test_each_point_is_a_job_and_the_same_words_take_them_up(run, read, script):
    script(REPORTS)
    status, out, err = run(*WORDS)
    assert status == 0
    assert "2 points: 2 succeeded" in out
    assert [line.partition(":")[0] for line in err.splitlines()] == ["lr=0.1 kind=adam", "lr=0.3 kind=adam"]
    status, document = read(*WORDS)
    again, by_name = document["points"], read("map", "--name", "lr-scan")[1]["points"]
    assert [one["point"] for one in again] == [{"lr": 0.1, "kind": "adam"}, {"lr": 0.3, "kind": "adam"}]
    assert [one["job"]["id"] for one in again] == [one["job"]["id"] for one in by_name]
    assert all(one["job"]["id"] in err for one in again)


def test_a_failed_point_ends_with_1_and_stands_in_the_document(run, read, script):
    script(REPORTS)
    words = ("map", "train.py", "--name", "fast", "--grid", "lr=0.1,0.9")
    status, document = read(*words)
    assert status == 1
    assert document["points"][0]["error"] is None
    assert "too fast" in document["points"][1]["error"]["what"] + str(document["points"][1]["error"]["why"])


@each(
    ("words", "flag"),
    [
        (("train.py", "--grid", "lr=1"), "--name"),
        (("train.py", "--name", "scan", "--grid", "lr"), "--grid"),
        (("train.py", "--name", "scan", "--grid", "lr=1", "--grid", "lr=2"), "--grid"),
        (("train.py", "--name", "scan"), "--grid"),
        (("train.py", "--name", "scan", "--grid", "layers=[1,2]"), "--grid"),
        (("--name", "scan", "--grid", "lr=1"), "gputrain map SCRIPT --name scan"),
        (("--name", "scan", "--max-parallel", "2"), "--max-parallel"),
        (("--name", "scan", "--max-cost", "2"), "--max-cost"),
        (("nothere.py", "--name", "scan", "--grid", "lr=1"), "nothere.py"),
    ],
)
def test_what_is_missing_is_told_in_words_of_the_command_line(run, script, words, flag):
    script(REPORTS)
    status, _, err = run("map", *words)
    assert status == 2
    assert flag in err


def test_a_command_gets_the_words_of_its_point(run, read):
    asked = ("map", "--name", "said", "--grid", "lr=0.1", "--", "echo", "words")
    assert run(*asked)[0] == 0
    job = read("map", "--name", "said")[1]["points"][0]["job"]
    assert "words --lr 0.1" in run("logs", job["id"])[1]


def test_what_was_not_submitted_tells_why_and_ends_as_its_reason(run, script):
    script("pass")
    Trainer().map("train.py", [{"lr": 0.2}], name="given-up").cancel()
    status, out, err = run("map", "train.py", "--name", "given-up", "--grid", "lr=0.1")
    assert status == 2
    assert "1 not submitted" in out
    assert "the experiment was cancelled" in err
