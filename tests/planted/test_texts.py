"""Each fault can be planted where the code stands today, and each test that is to catch it exists."""

import ast

from tests.planted.faults import FAULTS
from tests.planted.plant import ROOT


def test_each_fault_stands_in_its_file_once_and_leaves_code_that_compiles():
    for plant in FAULTS:
        text = plant.planted(plant.path.read_text(encoding="utf-8"))
        if plant.path.suffix == ".py":
            compile(text, plant.file, "exec")


def test_each_fault_names_tests_that_exist():
    missing = [
        (plant.name, one)
        for plant in FAULTS
        for one in plant.caught_by or ("none",)
        if one.partition("[")[0] not in _tests_in(one.partition("::")[0])
    ]
    assert not missing


def _tests_in(file):
    path = ROOT / file
    tree = ast.parse(path.read_bytes()) if path.is_file() else ast.Module([], [])
    return {f"{file}::{one.name}" for one in tree.body if isinstance(one, ast.FunctionDef)}


def test_no_two_faults_have_one_name():
    names = [plant.name for plant in FAULTS]
    assert len(set(names)) == len(names) >= 30
