"""What is told at a terminal is told in flags and commands, wherever in the library it was written."""

import ast
import re
from pathlib import Path

import pytest

from gputrain import ComputeEngine, Local, VertexAI
from gputrain.backends.registry import takes
from gputrain.cli.parser import FLAGS
from gputrain.cli.wording import checked, spoken, words
from gputrain.errors import JobFailedError, ProviderError, RequestError
from gputrain.fields import refused
from gputrain.preflight import Check, Checks, Finding
from tests.each import each

ROOT = Path(__file__).parents[3]


@each(
    ("words", "said"),
    [
        ("plan train.py --num-nodes 0", "--num-nodes 0: a whole number from 1 to 1000. Fix: --num-nodes 2"),
        ("plan", "say one of SCRIPT, -m MODULE, or a command after --. Fix: gputrain plan train.py"),
        ("build --create-repository", "one of them. Fix: gputrain build Dockerfile\n"),
        ("submit --gpu L4:1", "Fix: gputrain submit train.py"),
        ("plan train.py --max-run-duration soon", "write '90m', '12h', '1d', '1h30m'\n"),
        ("plan train.py --provisioning-model x", "--provisioning-model spot --provisioning-model flex-start"),
        ("logs gputrain://local/nosuch", "list the jobs there are with gputrain jobs"),
        ("logs nosuch --since yesterday", "no job is called 'nosuch'"),
    ],
)  # fmt: skip
def test_errors_speak_of_flags_and_commands(run, script, words, said):
    script()
    assert said in run(*words.split())[2]


APART = ("cli", "ddp", "emulator", "entrypoint", "keeper", "refresh")
"""Rooms whose texts no command shows, or that speak of flags themselves."""
NAMES = {*FLAGS, *(name for kind in (Local, VertexAI, ComputeEngine) for name in takes(kind).names)} - {
    "now",
    "sleep",
}
PYTHON = re.compile(
    r"\b(?:trainer|job|plan|scan|experiment)\.[a-z_]+\(|Trainer\(|(?<!\w)[a-z_.]+\([a-z_]+="
    r"|\bgputrain\.(?!toml)[a-z_]+[(.]|"
    rf"(?<![\w$&?{{/-])(?:{'|'.join(sorted(NAMES, key=len, reverse=True))})=(?!=)"
)
"""A call, or an argument, as Python has them and no command line."""


def sentences():
    """Every text that the library may show, with its place; what is filled in at run time is a word."""
    for path in sorted((ROOT / "gputrain").rglob("*.py")):
        place = path.relative_to(ROOT / "gputrain")
        if place.parts[0] not in APART:
            yield from ((f"{place}:{line}", text) for line, text in texts(ast.parse(path.read_text())))


def texts(tree):
    reprs = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "__repr__"]
    told = [one.value for one in ast.walk(tree) if isinstance(one, ast.Expr)]  # docstrings
    joined = [one for one in ast.walk(tree) if isinstance(one, ast.JoinedStr)]
    inside = [inner for one in (*reprs, *told, *joined) for inner in ast.walk(one) if inner not in joined]
    skipped = {id(one) for one in inside} | {id(one) for one in (*reprs, *told) if one not in joined}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(filled, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def filled(part):
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "'X'" if part.conversion == ord("r") else "X"


def test_no_text_of_the_library_speaks_python_at_a_terminal():
    told = ((place, text) for place, text in sentences() if " " in text or "=" in text)
    said = [(place, text, words(text)) for place, text in told if PYTHON.search(text)]
    assert len(said) > 150
    assert not [one for one in said if PYTHON.search(one[2])]


def test_three_dots_are_no_word_of_a_command():
    assert not [(place, text) for place, text in sentences() if "Ellipsis" in words(text)]


KEY = "kms_key=projects/p/locations/r: may not be used; gpus=3 network=eth0 num_nodes=2"


@pytest.mark.parametrize(
    "error",
    [
        JobFailedError("a failed on rank 0: gpus=3", why=KEY, fix="mend num_nodes=2"),
        RequestError("could not look at gpus=3", why=KEY, fix="mend num_nodes=2", raw={}),
        ProviderError("could not look at gpus=3", why=KEY, fix="mend num_nodes=2"),
    ],
)
def test_what_a_script_or_google_said_stays_as_it_was_said(error):
    told = spoken(error)
    assert (told.what, told.why, told.fix) == (error.what, error.why, "mend --num-nodes 2")


def test_what_a_preflight_saw_stays_as_it_was_said():
    check = Check(subject="key", finding=Finding.FAULT, why=KEY, fix="num_nodes=2")
    (told,) = checked(Checks(checks=[check]))
    assert (told.why, told.fix) == (KEY, "--num-nodes 2")


@each(
    "value",
    ["a" * 90, "it's " + "a" * 90, ["a" * 90], ["a"] * 40, {"a": "b" * 90}, ("a" * 90, "b"), b"a" * 90],
)
def test_a_value_that_is_cut_leaves_the_remedy_whole(value):
    error = refused("name", value, "a name of letters", "name='bert-base', or leave it out")
    assert spoken(error).what.endswith("...: a name of letters. Fix: --name bert-base, or leave it out")
    assert spoken(error).what.startswith("--name ")


def test_what_stands_inside_a_value_is_somebodys():
    text = "args=['gpus=3 network=eth0']: numbers as text"
    assert words(text) == "-- 'gpus=3 network=eth0': numbers as text"


@each(
    ("python", "typed"),
    [
        ("or external_ip=True;", "or external_ip = true under [compute] in gputrain.toml;"),
        ("Local(root='jobs')", 'root = "jobs" under [local] in gputrain.toml'),
        ("Local(root=...) or $X", "root = ... under [local] in gputrain.toml or $X"),
        ("disk_gib=100", "disk_gib = 100 under [compute] or [vertex] in gputrain.toml"),
        ("(image_family=)", "(image_family = ... under [compute] in gputrain.toml)"),
        ("gpu_subnetworks=['a', 'b']", 'gpu_subnetworks = ["a", "b"] under [compute] in gputrain.toml'),
        (
            "reduction_server=ReductionServer(replicas=2)",
            "reduction_server = {replicas = 2} under [vertex] in gputrain.toml",
        ),
        ("bucket='gs://my-bucket'", "--bucket gs://my-bucket"),
        ("lr=0.1 of nobody", "lr=0.1 of nobody"),
    ],
)
def test_an_argument_of_a_backend_is_told_as_its_flag_or_as_the_file_says_it(python, typed):
    assert words(python) == typed


@each("words", ["doctor", "doctor --json", "plan", "plan --json", "plan --explain", "submit"])
def test_reports_and_documents_speak_of_flags_too(run, script, words):
    script()
    command, *flags = words.split()
    _, out, err = run(command, "train.py", "--gpu", "H100:2", *flags)
    assert "leave --gpu out to run CPU ranks" in out + err
