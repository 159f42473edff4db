"""The face is light, whole and honest."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gputrain

# google.api_core, not google: .pth files seed the namespace at every start of the interpreter.
HEAVY = (
    "google.api_core",
    "google.cloud.compute_v1",
    "google.cloud.aiplatform_v1",
    "torch",
    "requests",
    "tenacity",
    "rich",
    "grpc",
    "numpy",
)


def loaded_by(code):
    program = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_importing_gputrain_loads_nothing_heavy():
    assert not loaded_by("import gputrain") & set(HEAVY)


def test_planning_on_this_machine_loads_nothing_heavy():
    code = "import gputrain; gputrain.Trainer().plan('train.py', nproc_per_node=2)"
    assert not loaded_by(code) & set(HEAVY)


@pytest.mark.parametrize("name", gputrain.__all__)
def test_every_public_name_is_there_and_documented(name):
    value = getattr(gputrain, name)
    assert name == "__version__" or (value.__doc__ or "").strip()


def test_type_checkers_see_the_names_that_exist():
    tree = ast.parse(Path(gputrain.__file__).with_suffix(".pyi").read_text())
    seen = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == set(gputrain.__all__) - {"__version__"}


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Trainr"):
        gputrain.Trainr  # noqa: B018


def test_public_names_are_listed_for_completion():
    assert set(gputrain.__all__) <= set(dir(gputrain))
