"""People install two wheels: each works alone, away from the source folder, and holds what it needs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
JOB = """
import gputrain, sys
from gputrain import Local, Trainer, catalog, ddp
assert "site" in gputrain.__file__, gputrain.__file__
assert catalog.find("nvidia-h100-80gb").kind == "H100"
result = Trainer(Local(gpus=0)).run("hello.py", num_nodes=2)
print(result.state.value)
"""
CLOUD = """
import gputrain_emulator
from urllib.request import urlopen
assert "site" in gputrain_emulator.__file__, gputrain_emulator.__file__
with gputrain_emulator.start() as cloud:
    print(urlopen(f"{cloud.endpoints.url}/compute/v1/projects/{cloud.project}/zones/us-central1-a").status)
"""


def built(folder, source):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("wheel"), ROOT)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    return built(tmp_path_factory.mktemp("emulator"), ROOT / "emulator")


class Environment:
    """A fresh environment over the packages that are here, without the two distributions of this folder.

    No network: what the wheels require is found where this Python has it. The editable installs beside it
    are .pth files, which Python reads in an environment's own folder only, and a folder gputrain/demo.
    """

    def __init__(self, folder):
        self.work = folder / "work"
        self.work.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        self.bin = folder / "venv" / "bin"
        (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        below = [entry for entry in sys.path if entry.endswith("site-packages")]
        (site / "below.pth").write_text("\n".join(below))

    def install(self, *wheels):
        pip = [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet"]
        options = ["--no-deps", "--no-index", "--ignore-installed"]
        subprocess.run([*pip, *options, *wheels], check=True, capture_output=True)

    def run(self, *words):
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        env["GPUTRAIN_HOME"] = str(self.work / "home")
        return subprocess.run(words, cwd=self.work, env=env, capture_output=True, text=True, check=False)

    def python(self, *words):
        return self.run(self.bin / "python", *words)


@pytest.fixture
def fresh(tmp_path):
    return Environment(tmp_path)


def test_a_job_runs_without_the_emulator(fresh, wheel):
    fresh.install(wheel)
    (fresh.work / "hello.py").write_text("print('hello')")
    done = fresh.python("-c", JOB)
    assert done.stdout.strip() == "succeeded", done.stderr


def test_the_wheel_brings_what_the_demo_trains(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    trained = {"char_model.py", "char_transformer.py", "data/shakespeare.txt"}
    assert {f"gputrain/demo/{one}" for one in trained} <= names


def test_gputrain_says_how_to_get_the_emulator(fresh, wheel):
    fresh.install(wheel)
    for words in (["-c", "import gputrain.emulator"], ["-m", "gputrain.emulator"]):
        done = fresh.python(*words)
        assert done.returncode != 0
        assert "pip install 'gputrain[emulator]'" in done.stderr


def test_the_emulator_serves_without_gputrain(fresh, emulator):
    fresh.install(emulator)
    assert fresh.python("-c", "from gputrain import Trainer").returncode != 0
    done = fresh.python("-c", CLOUD)
    assert done.stdout.strip() == "200", done.stderr
    done = fresh.run(fresh.bin / "gputrain-emulator", "--help")
    assert "--port" in done.stdout, done.stderr


def test_both_together_are_one_program(fresh, wheel, emulator):
    fresh.install(wheel, emulator)
    done = fresh.python("-c", "import gputrain.emulator; print(gputrain.emulator.start.__module__)")
    assert done.stdout.startswith("gputrain_emulator."), done.stderr
    assert "--port" in fresh.python("-m", "gputrain.emulator", "--help").stdout


@pytest.mark.parametrize(
    ("distribution", "package", "data"),
    [
        ("wheel", "gputrain", "catalog/data/sources.csv"),
        ("emulator", "gputrain_emulator", "data/machines.csv"),
    ],
)
def test_a_wheel_holds_its_package_and_nothing_else(request, distribution, package, data):
    names = zipfile.ZipFile(request.getfixturevalue(distribution)).namelist()
    assert all(name.startswith((f"{package}/", f"{package}-")) for name in names)
    assert {f"{package}/py.typed", f"{package}/{data}"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
