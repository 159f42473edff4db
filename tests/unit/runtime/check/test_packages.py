"""Requirements on top of what is installed, from a package index of this machine that counts its files."""

import contextlib
import os
import subprocess
import sys
from importlib import metadata

import pytest

from gputrain.runtime.packages import Refused, install
from tests import shadows
from tests.package_index import index, wheel

__all__ = ["index"]

TORCH = metadata.version("torch")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "environments").mkdir()
    return str(tmp_path / "environments")


def told(environment, code):
    env = {**os.environ, **environment.variables(os.environ)}
    return subprocess.run(
        [environment.python, "-c", code], env=env, capture_output=True, text=True
    ).stdout.strip()


def test_what_depends_on_something_installed_comes_alone(index, folder):
    wheel(index.folder, "needs-torch", "1.0", ["torch>=2", "attrs"], script="needs-torch")
    wheel(index.folder, "torch", "99.0")
    environment = install(["needs-torch"], folder)
    assert index.brought == ["needs_torch-1.0-py3-none-any.whl"]
    said = told(
        environment, "import needs_torch, torch, attrs; print(needs_torch.VERSION, torch.__version__)"
    )
    assert said == f"1.0 {TORCH}"
    done = subprocess.run(
        ["needs-torch"], env={**os.environ, **environment.variables({})}, capture_output=True, text=True
    )
    assert done.stdout == "ran 1.0\n"


def test_what_is_installed_is_not_brought_again(index, folder):
    environment = install(["torch", f"attrs=={metadata.version('attrs')}", "numpy>=1"], folder)
    assert index.brought == []
    assert told(environment, "import torch; print(torch.ones(2).sum().item())") == "2.0"


@pytest.mark.parametrize("name", ["torch==1.0", "wants-old", "wants-wanting"])
def test_another_torch_is_refused_with_both_versions(index, folder, name):
    wheel(index.folder, "torch", "1.0")
    wheel(index.folder, "wants-old", "1.0", ["torch==1.0"])
    wheel(index.folder, "wants-wanting", "1.0", ["wants-old"])
    with pytest.raises(Refused) as caught:
        install([name], folder)
    assert f"torch {TORCH}" in str(caught.value)
    assert "torch==1.0" in str(caught.value)
    assert caught.value.kind == "requirements"


def test_the_newest_torch_is_not_taken_for_one_that_would_do(index, folder):
    wheel(index.folder, "torch", "99.0")
    wheel(index.folder, "upgrades", "1.0", ["torch"])
    install(["--upgrade", "upgrades"], folder)
    assert index.brought == ["upgrades-1.0-py3-none-any.whl"]


def test_another_version_of_something_else_stands_before_the_installed_one(index, folder, monkeypatch):
    wheel(index.folder, "attrs", "999.0")
    environment = install(["attrs==999.0"], folder)
    ask = "import sys; from importlib import metadata; print(metadata.version('attrs'))"
    assert told(environment, ask) == "999.0"
    monkeypatch.setenv("PYTHONPATH", str(metadata.distribution("attrs").locate_file("")))
    assert told(environment, ask) == "999.0"
    assert metadata.version("attrs") != "999.0"


def test_the_same_requirements_are_installed_once_by_however_many(index, folder):
    wheel(index.folder, "slow", "1.0")
    code = f"from gputrain.runtime.packages import install; print(install(['slow'], {folder!r}).python)"
    at_once = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert len({process.communicate()[0] for process in at_once}) == 1
    install(["slow"], folder)
    assert index.brought == ["slow-1.0-py3-none-any.whl"]


def test_an_install_that_was_cut_off_is_begun_anew(index, folder):
    wheel(index.folder, "cut", "1.0")
    environment = install(["cut"], folder)
    os.unlink(os.path.join(environment.root, "ready"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(environment.packages, "cut.py"))
    assert told(install(["cut"], folder), "import cut; print(cut.VERSION)") == "1.0"


def test_a_file_of_requirements_is_told_by_its_content(index, folder, tmp_path):
    wheel(index.folder, "one", "1.0")
    wheel(index.folder, "two", "1.0")
    path = tmp_path / "requirements.txt"
    roots = []
    for name in ("one", "two"):
        path.write_text(name + "\n")
        roots.append(install(["-r", str(path)], folder).root)
    assert roots[0] != roots[1]


def test_an_image_that_sends_pip_elsewhere_is_not_heeded(index, folder, monkeypatch, tmp_path):
    wheel(index.folder, "here", "1.0")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    assert told(install(["here"], folder), "import here; print(here.VERSION)") == "1.0"


def test_pip_is_pips_own_wherever_the_users_code_lies(index, folder, monkeypatch, tmp_path):
    wheel(index.folder, "here", "1.0")
    (tmp_path / "code").mkdir()
    shadows.cast(tmp_path / "code")
    monkeypatch.chdir(tmp_path / "code")
    environment = install(["here"], folder)
    monkeypatch.chdir(folder)
    assert told(environment, "import here; print(here.VERSION)") == "1.0"
