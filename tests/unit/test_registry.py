"""Backends are found by the entry points of whatever is installed."""

import sys

import pytest

import gputrain
from gputrain import Local, SpecError, Trainer
from gputrain.backends import registry
from gputrain.jobstore import FolderStore, JobRecord, JobStore, Option
from gputrain.jobstore.folder import usual_root


def record(backend, job_id="n"):
    option = Option(backend=backend, place="us-central1", region="us-central1")
    return JobRecord(job_id=job_id, spec={"script": "train.py"}, options=(option,))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a distribution with one backend: its rows, and its module's text."""

    def install(rows, text="", name="acme"):
        site = tmp_path / name
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[gputrain.backends]\n" + "\n".join(rows) + "\n")
        (site / f"{name}_backend.py").write_text(text)
        monkeypatch.syspath_prepend(site)

    return install


def refused(call):
    with pytest.raises(SpecError) as told:
        call()
    assert [fault.field for fault in told.value.faults] == ["backend"]
    return str(told.value)


def test_a_backend_is_found_once_its_distribution_is_installed(installed):
    before = registry.names()
    installed(["acme = acme_backend:Acme"], "from gputrain.backends.local import Local as Acme")
    assert set(registry.names()) == {*before, "acme"}
    assert registry.find("acme").__name__ == "Local"


BROKEN = [
    ("acme = acme_backend:Nothing", "", "AttributeError"),
    ("acme = acme_gone:Acme", "", "No module named 'acme_gone'"),
    ("acme = acme_backend:Acme", "raise ValueError('no licence')", "ValueError: no licence"),
    (
        "acme = acme_backend:Acme",
        "from gputrain import Local\nAcme = Local()",
        "no class that inherits Backend",
    ),
]


@pytest.mark.parametrize(("row", "text", "said"), BROKEN)
def test_a_broken_distribution_is_named_with_what_is_wrong(installed, row, text, said):
    installed([row], text)
    sys.modules.pop("acme_backend", None)
    told = refused(lambda: registry.find("acme"))
    assert said in told
    assert "reinstall acme, or uninstall it" in told
    assert registry.find("local").__name__ == "Local"
    assert "acme" in registry.names()


def test_two_distributions_that_bring_one_name_are_both_told(installed):
    installed(["local = acme_backend:Acme"])
    told = refused(lambda: registry.find("local"))
    assert "acme and gputrain both bring one" in told


def test_a_job_of_a_backend_that_is_not_installed_says_what_to_install():
    JobStore(FolderStore(usual_root())).swap(record("slurm2", "bert"), 0)
    told = refused(lambda: gputrain.attach("gputrain://local/bert"))
    assert "install the package that brings it" in told
    assert "`slurm2 = ...` in its entry points gputrain.backends" in told


def test_the_default_is_this_machine():
    assert isinstance(Trainer()._backends["local"], Local)
