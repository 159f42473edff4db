"""`gputrain map`: an experiment from words."""

from gputrain import Trainer
from tests.each import each

REPORTS = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--kind")
asked = parser.parse_args()
os.mkdir("running")  # fails beside another job
time.sleep(0.2)
os.rmdir("running")
assert asked.lr < 0.5, "too fast"
print("GPUTRAIN_METRIC " + json.dumps({"step": 1, "loss": asked.lr}))
"""
WORDS = ("map", "train.py", "--name", "lr-scan", "--grid", "lr=0.1,3e-1", "--grid", "kind=adam",
         "--max-parallel", "1")  # fmt: skip


def test_each_point_is_a_job_one_at_a_time_and_the_same_words_resume_them(run, read, script):
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


def test_what_was_not_submitted_tells_why_and_ends_as_its_reason(run, script):
    script("pass")
    Trainer().map("train.py", [{"lr": 0.2}], name="given-up").cancel()
    status, out, err = run("map", "train.py", "--name", "given-up", "--grid", "lr=0.1")
    assert status == 2
    assert "1 not submitted" in out
    assert "the experiment was cancelled" in err
