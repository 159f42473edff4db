"""A backend is one folder: without it the rest imports, collects its tests and passes them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import present

HERE = Path(__file__).parents[2]
KEPT = ("gputrain", "tests", "emulator", "examples", "benchmarks", "docs", "conftest.py", "pyproject.toml",
        "README.md", ".gputrainignore")  # fmt: skip
RUN = "test_choice or test_abilities or test_checks or (test_backends and first_cause)"
"""What every tree can run, quickly; everything else is collected."""
STAYS = ("tests/contract/test_backends.py", "tests/unit/preflight/test_permissions.py",
         "tests/unit/trainer/test_climb.py", "tests/unit/cli/test_commands.py")  # fmt: skip
PYTEST = """
import sys, pytest

class Tell:
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        print("COLLECTED", *sorted({item.nodeid.partition("::")[0] for item in items}))

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[Tell()]))
"""

pytestmark = pytest.mark.skipif(bool(present.ABSENT), reason="one is gone already")


@pytest.fixture(params=present.CLASSES)
def without(request, tmp_path):
    """A copy of this tree without one backend; its name, and how to run pytest there."""
    for name in KEPT:
        source, target = HERE / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    shutil.rmtree(tmp_path / "gputrain" / "backends" / request.param)

    def run(*words, code=PYTEST):
        env = {
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_ADDOPTS": "",
        }
        return subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, env=env, capture_output=True, text=True
        )

    return request.param, run


def test_the_rest_imports_and_says_what_is_gone(without):
    name, run = without
    done = run(code=f"import gputrain, gputrain.cli\ngputrain.attach('gputrain://{name}/p/place/job-1')")
    assert f"SpecError: the backend '{name}' cannot be used" in done.stderr


@pytest.mark.timeout(900)
def test_the_tests_of_the_others_are_collected_and_pass(without):
    name, run = without
    done = run("-k", RUN, "tests")
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("COLLECTED ")]
    collected = told.split()[1:]
    assert set(collected) >= set(STAYS)
    rooms = {path.split("/")[2] for path in collected if path.startswith("tests/unit/")}
    assert rooms & set(present.CLASSES) == set(present.CLASSES) - {name}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_whole_of_the_others_passes(without):
    name, run = without
    others = [f"tests/unit/{one}" for one in present.CLASSES if one != name]
    shared = ("tests/unit/trainer", "tests/unit/preflight", "tests/contract")
    done = run(*others, *shared, "--timeout=3600", "--show-capture=no")
    assert done.returncode == 0, done.stdout[-3000:]
