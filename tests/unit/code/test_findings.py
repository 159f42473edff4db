"""What is wrong with code is told when a job is planned, with all else, and before anything is made."""

import pytest

from gputrain import Local, SpecError, Trainer, TrainingSpec
from gputrain.code.entry import examine, lacked
from tests.each import each

HERE = {"gpus": 0}
MESSY = "import os\nimport torch, einops as e\nfrom sklearn.svm import SVC\nimport beside\nfrom . import x\n"


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "train.py"
        path.write_text(text)
        return path

    return write


def findings(path, *, is_sent=True, **fields):
    return examine(TrainingSpec(script=str(path), **fields), is_sent=is_sent)


@pytest.mark.parametrize(
    ("text", "line"), [("x = 1\ny = (\n", "line 2"), ("def f():\nreturn 1\n", "line 2"), ("a\0b", "line 1")]
)
def test_a_script_that_is_no_python_is_a_fault_of_the_plan_and_ends_a_submit_before_it_begins(
    script, text, line, tmp_path
):
    path = script(text)
    trainer = Trainer(Local(gpus=0, root=tmp_path / "jobs"))
    planned = trainer.plan(path, nproc_per_node=1)
    (fault,) = planned.faults
    assert (fault.field, line in fault.expected) == ("script", True)
    assert "Faults of the code" in str(planned)
    assert "would be refused" in planned.explain()
    with pytest.raises(SpecError, match=line):
        planned.submit()
    assert trainer.jobs() == []


def test_a_script_is_never_run_to_look_at_it(script, tmp_path):
    path = script(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(3)\n")
    found = findings(path)
    assert (found.faults, found.warnings) == ((), ())
    assert not examine(TrainingSpec(script=str(path)), is_sent=False).uploads
    assert not (tmp_path / "ran").exists()


def test_a_missing_script_is_told_beside_all_faults_of_its_spec(script):
    path = script("pass")
    with pytest.raises(SpecError) as caught:
        Trainer(Local(**HERE)).plan(str(path)[:-3] + "n.py", num_nodes=0, max_run_duration="soon")
    fields = [fault.field for fault in caught.value.faults]
    assert fields == ["num_nodes", "max_run_duration", "script"]
    assert "did you mean train.py?" in str(caught.value)


def test_what_a_script_imports_and_nobody_brings_is_warned_of(script, tmp_path):
    (tmp_path / "beside.py").write_text("")
    (warning,) = findings(script(MESSY)).warnings
    assert "imports einops, sklearn," in warning
    assert "requirements=['einops', 'scikit-learn']" in warning


@pytest.mark.parametrize(
    "fields",
    [
        {"requirements": ["einops==0.8.0", "Scikit_Learn[all]>=1.3"]},
        {"requirements": ["git+https://example.com/all.git"]},
        {"image": "us-docker.pkg.dev/p/r/i:1"},
    ],
)
def test_what_may_bring_an_import_silences_the_warning(script, tmp_path, fields):
    (tmp_path / "beside.py").write_text("")
    assert findings(script(MESSY), **fields).warnings == ()


@pytest.mark.parametrize(
    ("is_sent", "mend"),
    [(True, "requirements=['scikit-learn'], or an image"), (False, "pip install scikit-learn")],
)
def test_a_package_that_a_rank_lacked_is_asked_for_by_the_name_it_is_sold_under(
    script, tmp_path, is_sent, mend
):
    spec = TrainingSpec(script=str(script("import sklearn.svm")))
    told = "Traceback ...\nModuleNotFoundError: No module named '{}'\n"
    assert mend in lacked(spec, told.format("sklearn.svm"), is_sent=is_sent)
    assert (
        lacked(spec, told.format("train"), is_sent=is_sent)
        == lacked(spec, "ValueError", is_sent=is_sent)
        == ""
    )


def test_a_file_of_requirements_is_read(script, tmp_path):
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "requirements.txt").write_text("# needed\n  einops\nscikit-learn; python_version > '3'\n")
    assert findings(script(MESSY), requirements="requirements.txt").warnings == ()


def test_an_import_that_may_fail_is_not_warned_of(script):
    text = "try:\n    import einops\nexcept ImportError:\n    pass\ndef late():\n    import pandas\n"
    assert findings(script(text)).warnings == ()


def test_an_import_from_above_the_script_is_the_repositorys_own_and_no_package(tmp_path):
    for name in (".git/HEAD", "mylib/__init__.py", "scripts/train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import mylib\n" if name.endswith("train.py") else "")
    path, way = tmp_path / "scripts/train.py", f"source_dir={str(tmp_path)!r}, script='scripts/train.py'"
    for is_sent in (True, False):
        (warning,) = findings(path, is_sent=is_sent).warnings
        assert warning == f"{path} imports mylib, which lies in {tmp_path}: {way}"
        told = "ModuleNotFoundError: No module named 'mylib'\n"
        assert lacked(TrainingSpec(script=str(path)), told, is_sent=is_sent) == way


def test_an_argument_that_is_a_file_from_here_alone_is_warned_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("conf.yaml", "scripts/train.py", "scripts/own.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    args = ["--config=conf.yaml", "own.yaml", "nowhere.yaml"]
    (warning,) = findings("scripts/train.py", args=args).warnings
    assert warning.startswith("conf.yaml is a file from here, and not from ")
    assert warning.endswith("source_dir='.', script='scripts/train.py'")


def test_requirements_that_lie_here_alone_are_faults_by_their_lines(script, tmp_path):
    here = ["attrs @ file:///croot/attrs", "-r ../base.txt", "/wheels/a.whl  # mine"]
    lines = [*here, "-r more.txt", "./own", "rich"]
    (tmp_path / "requirements.txt").write_text("\n".join(lines))
    (fault,) = findings(script("pass"), requirements="requirements.txt").faults
    assert fault.field == "requirements"
    named = [line for number, line in enumerate(lines, start=1) if f"line {number}: {line}" in str(fault)]
    assert named == here
    assert findings(script("pass"), is_sent=False, requirements="requirements.txt").faults == ()


@each(
    ("command", "is_warned"),
    [
        (["python3", "gone.py", "--lr", "1"], True),
        (["python3", "./here.py"], False),
        (["python3", "-m", "gone"], False),
        (["python3", "/app/gone.py"], False),
        (["/bin/echo", "gone.py"], False),
    ],
)
def test_a_command_whose_script_is_not_uploaded_is_warned_of(command, is_warned, tmp_path):
    (tmp_path / "here.py").write_text("")
    found = examine(TrainingSpec(command=command, source_dir=tmp_path), is_sent=True).warnings
    assert any("is not uploaded" in one and "entrypoint=" in one for one in found) is is_warned


def test_a_shell_script_with_the_line_ends_of_windows_is_told(tmp_path):
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")
    (tmp_path / "run.sh").chmod(0o755)
    (fault,) = examine(TrainingSpec(command=["./run.sh"], source_dir=tmp_path), is_sent=True).faults
    assert "sed -i" in fault.fix


@each(("text", "fields", "is_warned"), [
    ("import torch\n", {"nproc_per_node": 2}, True),
    ("import torch\n", {"gpu": "H100:8"}, True),
    ("import torch\n", {"num_nodes": 2, "nproc_per_node": 1}, True),
    ("import torch\n", {"nproc_per_node": 1}, False),
    ("import torch\n", {"nproc_per_node": 2, "launcher": "tensorflow"}, False),
    ("import torch\nimport torch.distributed as dist\n", {"nproc_per_node": 2}, False),
    ("import torch\nfrom accelerate import Accelerator\n", {"nproc_per_node": 2}, False),
    ("import torch\nfrom gputrain import ddp\n", {"nproc_per_node": 2}, False),
    ("print('no tensors')\n", {"nproc_per_node": 2}, False),
])  # fmt: skip
def test_ranks_that_would_train_copies_are_warned_of(text, fields, is_warned, tmp_path):
    (tmp_path / "train.py").write_text(text)
    found = findings(tmp_path / "train.py", **fields, requirements=["torch", "accelerate"])
    assert any("each rank trains a copy" in one for one in found.warnings) == is_warned


def test_ranks_that_meet_in_a_module_beside_the_script_are_not_warned_of(script, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "loop.py").write_text("from torch.distributed import init_process_group\n")
    assert findings(script("import torch\nimport lib.loop\n"), nproc_per_node=2).warnings == ()
