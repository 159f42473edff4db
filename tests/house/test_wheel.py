"""What people install is the wheel: it works away from the source folder, and holds what it needs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import gputrain, sys
from gputrain import Local, Trainer, catalog, ddp
assert "site" in gputrain.__file__, gputrain.__file__
assert catalog.find("nvidia-h100-80gb").kind == "H100"
result = Trainer(Local(gpus=0)).run("hello.py", num_nodes=2)
print(result.state.value)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_a_job_runs_from_the_wheel_away_from_the_source(wheel, tmp_path):
    site, work = tmp_path / "site", tmp_path / "work"
    zipfile.ZipFile(wheel).extractall(site)
    work.mkdir()
    (work / "hello.py").write_text("print('hello')")
    env = {**os.environ, "PYTHONPATH": str(site), "GPUTRAIN_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=work, env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "succeeded", done.stderr


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("gputrain/", "gputrain-")) for name in names)
    assert "gputrain/py.typed" in names
    for data in ("gputrain/catalog/data/prices.tsv", "gputrain/emulator/data/machines.csv"):
        assert data in names
    assert not [name for name in names if "__pycache__" in name]
