"""What this machine has for jobs."""

import os
import shutil

import pytest

from gputrain.backends.local.offers import LocalGpu
from gputrain.backends.local.preflight import preflight
from gputrain.doctor import Finding
from gputrain.spec import TrainingSpec

TORCH = """
__version__ = "2.10.0"
class version: cuda = "12.8"
class cuda: device_count = staticmethod(lambda: {})
"""


@pytest.fixture
def torch(tmp_path, monkeypatch):
    """Puts another torch before the one that is installed, in the processes that are started."""

    def write(text):
        (tmp_path / "torch.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    write(TORCH.format(1))
    return write


def gpu(index):
    return LocalGpu(index=index, uuid=f"GPU-{index}", kind="L4")


def check_of(checks, subject):
    (check,) = (one for one in checks if one.subject.startswith(subject))
    return check


def test_a_machine_with_all_it_needs_is_well(tmp_path, torch):
    checks = preflight(tmp_path / "jobs", [gpu(0)], None)
    assert checks.is_ok
    assert check_of(checks, "torch").why == "2.10.0, built for CUDA 12.8"
    assert check_of(checks, "GPUs").why == "L4"
    assert not (tmp_path / "jobs").exists()


def test_a_machine_whose_gpus_nvidia_smi_does_not_find_runs_cpu_ranks(tmp_path, torch):
    checks = preflight(tmp_path, [], TrainingSpec(command=["true"]))
    assert checks.is_ok
    assert check_of(checks, "GPUs").why.startswith("none: ranks run on the CPU")
    assert check_of(checks, "requirements").why == "all there"


def test_a_torch_that_sees_fewer_gpus_than_there_are_is_a_fault(tmp_path, torch):
    torch(TORCH.format(0))
    check = check_of(preflight(tmp_path, [gpu(0), gpu(1)], None), "torch")
    assert (check.finding, check.why) == (Finding.FAULT, "torch 2.10.0 sees 0 GPUs, and nvidia-smi 2")


def test_a_torch_that_cannot_be_imported_is_a_fault_in_its_own_words(tmp_path, torch):
    torch("raise ImportError('libcudart.so.12: cannot open shared object file')")
    check = check_of(preflight(tmp_path, [], None), "torch")
    assert check.finding is Finding.FAULT
    assert check.why == "ImportError: libcudart.so.12: cannot open shared object file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_fault(tmp_path, torch):
    (tmp_path / "shut").mkdir(mode=0o500)
    checks = preflight(tmp_path / "shut" / "jobs", [], None)
    assert [fault.fix for fault in checks.faults] == ["export GPUTRAIN_HOME=FOLDER"]


def test_requirements_that_will_be_installed_are_named(tmp_path, torch):
    (tmp_path / "train.py").write_text("")
    spec = TrainingSpec(script=str(tmp_path / "train.py"), requirements=["attrs>=1", "attrs>=1000"])
    check = check_of(preflight(tmp_path, [], spec), "requirements")
    assert (check.finding, check.why) == (Finding.OK, "installed before the ranks start: attrs>=1000")


@pytest.mark.parametrize(
    ("free", "finding", "why"),
    [
        (50 << 20, Finding.FAULT, "50 MiB are free"),
        ((1 << 30) - 1, Finding.FAULT, "1024 MiB are free"),
        (1 << 30, Finding.OK, "1 GiB are free"),
        (55 << 29, Finding.OK, "28 GiB are free"),
    ],
)
def test_a_disk_tells_what_is_free(tmp_path, torch, monkeypatch, free, finding, why):
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, (1 << 40) - free, free)
    )
    check = check_of(preflight(tmp_path, [], None), "folder")
    assert (check.finding, check.why) == (finding, why)
