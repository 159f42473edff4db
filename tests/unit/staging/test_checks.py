"""What is wrong with code is told when a job is planned, with all else, and before anything is made."""

import os
import sys
import types

import pytest
from google.oauth2.credentials import Credentials

import gputrain_emulator
from gputrain import ComputeEngine, Local, SpecError, Trainer, TrainingSpec, VertexAI
from gputrain.staging.checks import examine, lacked
from gputrain_emulator.storage import Storage

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
    (fault,) = planned.plan.faults
    assert (fault.field, line in fault.allowed) == ("script", True)
    assert "Faults of the code" in str(planned)
    assert "would be refused" in planned.explain()
    with pytest.raises(SpecError, match=line):
        planned.submit()
    assert trainer.jobs() == []


def test_a_script_is_never_run_to_look_at_it(script, tmp_path):
    path = script(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(3)\n")
    found = findings(path)
    assert (found.faults, found.warnings) == ((), ())
    assert not examine(TrainingSpec(script=str(path)), is_sent=False).travels
    assert not (tmp_path / "ran").exists()


def test_a_missing_script_is_told_beside_all_faults_of_its_spec(script):
    path = script("pass")
    with pytest.raises(SpecError) as caught:
        Trainer(Local(**HERE)).plan(str(path)[:-3] + "n.py", num_nodes=0, max_run_duration="soon")
    fields = [fault.field for fault in caught.value.faults]
    assert fields == ["num_nodes", "max_run_duration", "script"]
    assert "did you mean train.py?" in str(caught.value)


def test_a_script_that_is_a_pipe_is_told_as_one(tmp_path):
    os.mkfifo(tmp_path / "train.py")
    with pytest.raises(SpecError, match="this is a pipe, a device or a link to nothing"):
        Trainer(Local(**HERE)).submit(tmp_path / "train.py")


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


def test_what_is_not_sent_needs_what_is_installed_here(script, tmp_path):
    (tmp_path / "beside.py").write_text("")
    (warning,) = findings(script(MESSY), is_sent=False).warnings
    assert "not installed here" in warning
    assert "-m pip install einops scikit-learn" in warning


def test_a_package_that_a_rank_lacked_is_not_put_into_the_python_of_whoever_looks(script):
    spec = TrainingSpec(script=str(script("import sklearn.svm")))
    told = "ModuleNotFoundError: No module named 'sklearn'\n"
    assert lacked(spec, told, is_sent=False) == "pip install scikit-learn, with the Python that ran it"
    mend = lacked(spec, told, is_sent=False, python="/opt/my env/bin/python")
    assert mend == "'/opt/my env/bin/python' -m pip install scikit-learn"


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


@pytest.mark.parametrize("kind", [VertexAI, ComputeEngine])
def test_a_plan_says_that_an_account_could_not_be_read(script, kind):
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        where = {"region": "us-central1"} if kind is VertexAI else {"regions": ["us-central1"]}
        reach = {"endpoints": cloud.endpoints, "bucket": "gs://my-bucket"}
        known = Trainer(kind("my-project", **where, **reach, credentials=cloud.credentials))
        assert "nothing could be read" not in str(known.plan(script("pass"), gpu="L4:1"))
        blind = Trainer(kind("my-project", **where, **reach, credentials=Credentials(token="nobodys")))
        plan = blind.plan(script("pass"), gpu="L4:1")
        assert any("nothing could be read" in one for one in plan.warnings), plan.warnings
        assert "nothing could be read" in plan.explain()


@pytest.mark.parametrize("is_sent", [True, False])
def test_what_only_the_parser_or_this_process_cannot_look_up_is_no_fault(script, is_sent):
    assert findings(script("import __main__\n"), is_sent=is_sent).warnings == ()
    deep = script("import einops\nx = " + "+".join(["1"] * 6000))
    assert findings(deep, is_sent=is_sent).faults == ()


def test_a_module_that_was_put_in_by_hand_is_there(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "by_hand", types.ModuleType("by_hand"))
    assert findings(script("import by_hand\n"), is_sent=False).warnings == ()
