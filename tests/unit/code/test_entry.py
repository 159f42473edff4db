"""From a spec's entry to a folder and the words that start it."""

import importlib
import linecache
import ntpath

import pytest

from gputrain.code import resolve
from gputrain.code.entry import below
from gputrain.code.function import source_of
from gputrain.errors import SpecError
from gputrain.spec import TrainingSpec
from tests.each import each


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A folder of code, and the test runs beside it."""
    for name in (
        "train",
        "pkg/__init__",
        "pkg/train",
        "pkg/tool/__init__",
        "pkg/tool/__main__",
        "plain/deep/train",
    ):
        path = tmp_path / "code" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise SystemError('nothing may import this')\n")
    (tmp_path / "code" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "code" / "run.sh").chmod(0o755)
    (tmp_path / "code" / "notes.txt").touch()
    (tmp_path / "code" / "wanted.txt").write_text("attrs\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "code"


def found(*, installed=True, **fields):
    source = resolve(TrainingSpec(**fields), installed=installed)
    return source.folder, source.argv


def fault(*, installed=True, **fields):
    with pytest.raises(SpecError) as caught:
        resolve(TrainingSpec(**fields), installed=installed)
    (one,) = caught.value.faults
    assert one.fix
    assert one.field in str(caught.value)
    return one


def test_a_script_runs_in_its_own_folder(code):
    assert found(script="code/train.py", args=["a"]) == (str(code), ("train.py", "a"))
    assert found(script=str(code / "train.py")) == (str(code), ("train.py",))


def test_a_script_is_relative_to_a_source_dir_that_is_given(code):
    assert found(script="pkg/train.py", source_dir="code") == (str(code), ("pkg/train.py",))
    assert found(script=str(code / "train.py"), source_dir="code") == (str(code), ("train.py",))


def test_requirements_lie_beside_the_source(code):
    assert found(script="code/train.py", requirements="wanted.txt")[0] == str(code)


@pytest.mark.parametrize("name", ["pkg.train", "pkg.tool", "train", "plain.deep.train"])
def test_a_module_is_found_and_not_imported(code, name):
    assert found(module=name, source_dir="code") == (str(code), ("-m", name))


@pytest.mark.parametrize("name", ["nowhere", "pkg.nowhere", "pkg", "train.deeper", "pkg.train.deeper"])
def test_a_module_that_python_m_would_not_run_is_refused(code, name):
    assert fault(module=name, source_dir="code").field == "module"


@pytest.mark.parametrize("command", [["./run.sh", "x"], ["sh", "-c", "true"], ["/bin/sh"]])
def test_a_command_is_a_program_that_can_be_run(code, command):
    assert found(command=command, source_dir="code") == (str(code), tuple(command))


@pytest.mark.parametrize("program", ["./nowhere", "nowhere-to-be-found", "./notes.txt", "./pkg"])
def test_a_command_that_cannot_be_run_is_refused(code, program):
    assert fault(command=[program], source_dir="code").field == "command"


def test_a_command_of_an_image_is_not_looked_for_here(code):
    assert found(command=["nowhere-to-be-found"], installed=False)[1] == ("nowhere-to-be-found",)


def test_a_missing_script_names_one_like_it(code):
    assert "train.py" in fault(script="code/trian.py").fix
    assert "no folder" in fault(script="code/none/train.py", source_dir=".").fix


@each(
    ("fields", "field"),
    [
        ({"script": "code"}, "script"),
        ({"script": "code/notes.txt"}, "script"),
        ({"script": "../x.py", "source_dir": "code/pkg"}, "script"),
        ({"script": "../train.py", "source_dir": "code/pkg"}, "script"),
        ({"script": "train.py", "source_dir": "none"}, "source_dir"),
        ({"script": "code/train.py", "requirements": "none.txt"}, "requirements"),
        ({"script": "code/pkg/train.py", "requirements": "../wanted.txt"}, "requirements"),
        ({"module": "m", "source_dir": "code/train.py"}, "source_dir"),
    ],
)
def test_what_is_not_there_or_not_inside_is_refused_by_its_field(code, fields, field):
    assert fault(**fields).field == field


@pytest.mark.parametrize(
    ("name", "file"), [("flat", "flat.py"), ("box.deep.mod", "box/deep/mod.py"), ("lid", "lid/__init__.py")]
)
def test_a_function_runs_where_its_neighbours_are_imported_from(code, monkeypatch, name, file):
    (code / file).parent.mkdir(parents=True, exist_ok=True)
    (code / file).write_text("def train():\n    pass\n")
    monkeypatch.syspath_prepend(str(code))
    function = importlib.import_module(name).train
    assert found(function=function)[0] == str(code)
    assert found(function=function, source_dir="code/pkg")[0] == str(code / "pkg")


def test_a_function_of_no_file_runs_in_the_current_folder(code):
    cell = {"__name__": "__main__"}
    text = "def train():\n    pass\n"
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(True), "<cell>")
    exec(compile(text, "<cell>", "exec"), cell)
    assert found(function=cell["train"])[0] == str(code.parent)


def test_a_class_of_a_cell_is_the_one_that_was_defined_last():
    cell = {"__name__": "__main__"}
    text = "import attrs\n\nclass Bare:\n    word = 'old'\n\n@attrs.frozen\nclass Bare:\n    word = 'new'\n"
    for name, told in (("<classes>", text), ("<broken>", "class Bare:"), ("<nul>", "\0")):
        linecache.cache[name] = (len(told), None, told.splitlines(True), name)
    exec(compile(text, "<classes>", "exec"), cell)
    assert source_of(cell["Bare"]) == "@attrs.frozen\nclass Bare:\n    word = 'new'\n"
    with pytest.raises(OSError, match="kept nowhere"):
        source_of(type("Made", (), {"__module__": "__main__"}))


@pytest.mark.parametrize(
    "entry", [{"command": ["true"]}, {"script": "train.py"}, {"command": ["true"], "source_dir": "~"}]
)
def test_a_home_directory_is_never_sent(code, monkeypatch, entry):
    monkeypatch.setenv("HOME", str(code))
    monkeypatch.chdir(code)
    refused = fault(installed=False, **entry)
    assert (refused.field, "source_dir=" in refused.fix) == ("source_dir", True)
    assert "a home directory" in refused.expected
    assert found(**entry)[0] == str(code), "a job of this machine may run anywhere"


@each(
    ("path", "folder", "found"),
    [
        ("C:\\proj\\pkg\\train.py", "C:\\proj", "pkg/train.py"),
        ("c:\\Proj\\train.py", "C:\\proj\\", "train.py"),
        ("C:\\proj", "C:\\proj", "."),
        ("C:\\Users\\me", "C:\\", "Users/me"),
        ("C:\\Users\\me", "C:\\Users\\me\\proj", ""),
        ("D:\\proj\\train.py", "C:\\proj", ""),
        ("\\\\server\\share\\p\\train.py", "\\\\server\\share\\p", "train.py"),
        ("\\\\server\\share\\train.py", "C:\\proj", ""),
    ],
)
def test_a_path_of_windows_is_named_as_linux_reads_it(path, folder, found):
    assert below(path, folder, system=ntpath) == found
