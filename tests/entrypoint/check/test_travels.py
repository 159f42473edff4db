"""The half that runs in the container: any Python from 3.9 on, nothing installed, one small file."""

import ast
import doctest
import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gputrain.code.bundle import pack
from gputrain.runtime import contract, zipapp
from tests import shadows
from tests.each import each
from tests.entrypoint.nodes import ROOT

PACKAGE = ROOT / "gputrain"
SOURCES = [
    PACKAGE / "__init__.py",
    PACKAGE / "entrypoint.py",
    *sorted((PACKAGE / "runtime").glob("*.py")),
    *sorted((PACKAGE / "ddp").glob("*.py")),
]
STAYS = {PACKAGE / "runtime/zipapp.py"}  # of use on the client's machine only
PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
OLD_ENOUGH = [path for path in PYTHONS if int(path.parts[-3].split(".")[1]) >= 9]


@pytest.fixture(scope="module")
def pyz(tmp_path_factory):
    path = tmp_path_factory.mktemp("pyz") / "gputrain.pyz"
    path.write_bytes(zipapp.build())
    return path


@each("path", SOURCES)
def test_the_syntax_is_that_of_python_3_9(path):
    ast.parse(path.read_text(), feature_version=(3, 9))


def test_the_zipapp_is_the_same_whenever_it_is_built(pyz):
    build = "import sys; from gputrain.runtime import zipapp; sys.stdout.buffer.write(zipapp.build())"
    env = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", build]
    again = subprocess.run(command, cwd="/", env=env, stdout=subprocess.PIPE, check=True)
    assert again.stdout == pyz.read_bytes()


def test_the_zipapp_stays_small(pyz):
    assert len(pack("", made={".gputrain/agent.pyz": pyz.read_bytes()}).data) < 76_000


def test_what_travels_is_what_lies_here(pyz):
    with zipfile.ZipFile(pyz) as archive:
        travels = {name: archive.read(name) for name in archive.namelist() if name != "__main__.py"}
    lies_here = {str(path.relative_to(ROOT)): path.read_bytes() for path in SOURCES if path not in STAYS}
    assert travels.keys() == lies_here.keys()
    for name, source in lies_here.items():
        assert code_of(travels[name]) == code_of(source), name


def code_of(source):
    """Its syntax with the line of each part, but for docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            node.body = [one for one in node.body if not _is_docstring(one)]
    return ast.dump(tree), [node.lineno for node in ast.walk(tree) if hasattr(node, "lineno")]


def _is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


SHOW = """
    import glob, os, sys, time
    from gputrain import ddp
    from gputrain.runtime import contract
    assert "gputrain.pyz" in ddp.__file__, ddp.__file__
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.version_info[:2], flush=True)
    open("up-" + os.environ["RANK"], "w").close()
    while len(glob.glob("up-*")) < 4:
        time.sleep(0.01)
    if os.environ["RANK"] == "3":
        raise ValueError("bad")
"""


@pytest.mark.parametrize("python", OLD_ENOUGH or [Path(sys.executable)], ids=lambda path: path.parts[-3])
def test_two_nodes_run_from_the_zipapp_alone(cluster, pyz, python):
    script = cluster.script(SHOW)
    nodes = [
        cluster.start(
            script, rank=rank, nodes=2, python=(python, "-S", "-I"), module=(pyz,), env={"PYTHONPATH": None}
        )
        for rank in (0, 1)
    ]
    for node in nodes:
        assert node.wait().code == 1, node.out
        assert len(node.said("] rank")) == 2
        assert (node.cause["rank"], node.cause["exception"]) == (3, "ValueError")


def test_a_script_started_by_a_script_finds_ddp_too(cluster, pyz):
    child = "import gputrain.ddp; print('child has', gputrain.ddp.__file__)"
    script = cluster.script(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    node = cluster.run(script, nproc=1, module=(pyz,), env={"PYTHONPATH": None})
    assert node.said("child has"), node.out


def test_a_script_in_a_folder_sees_what_torchrun_shows_it(cluster, pyz):
    (cluster.folder / "scripts").mkdir()
    shadows.cast(cluster.folder)
    code = "import json, random, sys; print('sees', sys.path[0], '' in sys.path)"
    script = cluster.script(code, "scripts/a.py")
    node = cluster.run(script, nproc=1, module=(str(pyz),), env={"PYTHONPATH": None})
    assert node.said(f"sees {cluster.folder / 'scripts'} False"), node.out


@pytest.mark.parametrize("module", ["gputrain.runtime.node", "gputrain.ddp"])
def test_what_runs_there_loads_little(module):
    """Nothing but the standard library, and none of its heavy rooms."""
    script = f"import sys, {module}; print(*sys.modules)"
    out = subprocess.run(
        [sys.executable, "-S", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(out.stdout.split())
    heavy = {"torch", "attrs", "attr", "asyncio", "http.client", "email", "ssl", "logging", "argparse"}
    assert not loaded & heavy


def test_the_document_tells_the_contract():
    text = (ROOT / "docs" / "reference" / "entrypoint.md").read_text()
    for name, (flag, default, meaning) in contract.ENVIRONMENT.items():
        row = (
            f"| `{name}` | {f'`{flag}`' if flag else ''} | {f'`{default}`' if default else ''} | {meaning} |"
        )
        assert row in text, row
    for code, meaning in contract.EXIT_CODES.items():
        assert f"| `{code}` | {meaning} |" in text, code
    tables = contract.RANK_ENVIRONMENT, contract.RESULT_FIELDS, contract.CAUSE_FIELDS, contract.CAUSE_KINDS
    for name in (*contract.STATES, *(name for table in tables for name in table)):
        assert f"\n| `{name}` | " in text, name


def test_a_result_has_the_fields_it_promises(cluster):
    node = cluster.run(cluster.script("raise ValueError"), nproc=1)
    assert set(node.result) == set(contract.RESULT_FIELDS)
    assert set(node.cause) == set(contract.CAUSE_FIELDS)
    assert node.cause["kind"] in contract.CAUSE_KINDS
    assert node.result["state"] in contract.STATES


@each("path", SOURCES)
def test_the_examples_in_docstrings_run(path):
    if not path.stem.startswith("__"):
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        assert doctest.testmod(module).failed == 0
