"""Flags over variables over defaults; every fault named."""

import pytest

from gputrain.runtime import contract
from gputrain.runtime.options import EnvironmentRefused, parse, usage
from tests.each import each

RUN = ["--", "train.py"]


def test_a_flag_wins_over_its_variable_and_that_over_the_default():
    assert parse(RUN, {}).grace == 25
    assert parse(RUN, {"GPUTRAIN_GRACE": "110"}).grace == 110
    assert parse(["--grace", "5", *RUN], {"GPUTRAIN_GRACE": "110"}).grace == 5
    assert parse(["--grace=6", *RUN], {"GPUTRAIN_GRACE": "110"}).grace == 6


def test_checkpoints_go_where_vertex_says_unless_told():
    vertex = {"AIP_CHECKPOINT_DIR": "gs://b/c/"}
    assert parse(RUN, vertex).for_ranks()["GPUTRAIN_CHECKPOINT_DIR"] == "gs://b/c/"
    assert (
        parse(RUN, {**vertex, "GPUTRAIN_CHECKPOINT_DIR": "/d"}).for_ranks()["GPUTRAIN_CHECKPOINT_DIR"] == "/d"
    )


@pytest.mark.parametrize(
    ("words", "kind", "argv"),
    [
        (["train.py", "--x", "--", "y"], "script", ["train.py", "--x", "--", "y"]),
        (["-m", "pkg.train", "--x"], "module", ["pkg.train", "--x"]),
        (["python", "train.py"], "program", ["python", "train.py"]),
    ],
)
def test_the_target_is_what_follows(words, kind, argv):
    target = parse(["--", *words], {}).target
    assert (target.kind, target.argv) == (kind, argv)


@each(
    ("argv", "environ", "told"),
    [
        ([], {}, "nothing to run"),
        (["--"], {}, "nothing to run"),
        (["--", "-m"], {}, "name of a module"),
        (["--nproc", "2", *RUN], {}, "there is no option --nproc"),
        (["--grace"], {}, "--grace needs a value"),
        (["--grace", "soon", *RUN], {}, "--grace (GPUTRAIN_GRACE) is 'soon'"),
        (["--grace", "-1", *RUN], {}, "GPUTRAIN_GRACE"),
        (["--grace", "nan", *RUN], {}, "GPUTRAIN_GRACE"),
        (["--num-nodes", "0", *RUN], {}, "at least 1"),
        (["--num-nodes", "1.5", *RUN], {}, "whole number"),
        (["--nproc-per-node", "all", *RUN], {}, "GPUTRAIN_NPROC_PER_NODE"),
        (RUN, {"GPUTRAIN_LAUNCHER": "mpi"}, "torchrun-env or tensorflow or none"),
        (RUN, {"GPUTRAIN_LOG_FORMAT": "xml"}, "text or json"),
        (["--local-addr", "vm-1", *RUN], {}, "must be a numeric address"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(argv, environ, told):
    with pytest.raises(EnvironmentRefused, match=__import__("re").escape(told)):
        parse(argv, environ)


def test_the_help_names_every_variable():
    assert all(name in usage() for name in contract.ENVIRONMENT)


def test_a_refusal_exits_64_and_says_why(cluster):
    results = cluster.folder / "results"
    env = {"GPUTRAIN_RESULT_DIR": str(results), "GPUTRAIN_JOB_ID": "bert", "GPUTRAIN_NODE_RANK": "1"}
    node = cluster.run("train.py", flags=["--launcher", "mpi"], env=env)
    assert node.code == 64
    assert (node.result["job"], node.cause["kind"]) == ("bert", "environment")
    assert set(node.result) == set(contract.RESULT_FIELDS)
    assert (results / "result-1.json").exists()
    assert "GPUTRAIN_LAUNCHER" in node.out
    assert "Traceback" not in node.out
