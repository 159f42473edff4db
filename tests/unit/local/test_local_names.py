"""Where the jobs of this machine lie, and by which names they are found: no process is started."""

import os

import pytest

from gputrain import Local, Trainer
from gputrain.errors import PermissionDeniedError, SpecError
from tests.each import each


def uri(local):
    return local.documents.ref("bert-1").uri


def test_a_name_tells_of_the_folder_unless_it_is_the_usual_one(tmp_path, monkeypatch):
    local = Local(gpus=0, root=tmp_path / "jobs")
    ref = local.documents.ref("bert-1")
    assert ref.home == str(tmp_path / "jobs")
    assert repr(Local.for_job(ref, None, gpus=0)) == repr(local)
    assert repr(local) == f"Local(gpus=0, root='{tmp_path}/jobs')"
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path))
    assert uri(Local()) == uri(local) == "gputrain://local/bert-1"


@each("way", ["a file", "a file above", "a link to itself", "a name that is too long"])
def test_a_folder_that_cannot_be_read_is_refused_with_the_fix(tmp_path, way):
    (tmp_path / "a file").write_text("in the way")
    (tmp_path / "a link to itself").symlink_to(tmp_path / "a link to itself")
    names = {"a file above": "a file/jobs", "a name that is too long": "a" * 300}
    trainer = Trainer(Local(gpus=0, root=tmp_path / names.get(way, way)))
    with pytest.raises(PermissionDeniedError) as caught:
        trainer.submit(["true"], idempotency_key="k")
    assert "Local(root=...)" in caught.value.fix


def test_a_folder_that_is_not_there_yet_holds_no_jobs(tmp_path):
    local = Local(gpus=0, root=tmp_path / "none")
    assert (tuple(Trainer(local).jobs()), local.machines()) == ((), ())
    assert not (tmp_path / "none").exists()


def test_where_there_is_no_fork_it_is_refused_by_the_name_of_the_system(monkeypatch):
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(SpecError, match="Local does not run on Windows"):
        Local()
