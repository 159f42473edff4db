"""GPUs of this machine, as a fake ``nvidia-smi`` on PATH lists them."""

import os
import secrets

import pytest

from gputrain.backends.local import Local, supervisor
from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from tests.each import each
from tests.patience import until
from tests.unit.local.jobs import jobs_of

HOLD = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("gpus", os.environ["GROUP_RANK"], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes a machine with cards of these names; gives their UUIDs."""

    def make(*names, script=None):
        uuids = [f"GPU-{secrets.token_hex(8)}" for _ in names]
        rows = [f"{i}, {uuid}, {name}" for i, (uuid, name) in enumerate(zip(uuids, names))]
        monkeypatch.setattr("gputrain.backends.local.request.GPU_LOCKS", str(tmp_path / "locks"))
        (tmp_path / "bin").mkdir(exist_ok=True)
        program = tmp_path / "bin" / "nvidia-smi"
        program.write_text(script or "#!/bin/sh\ncat <<'END'\n" + "\n".join(rows) + "\nEND\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return uuids

    return make


@pytest.fixture
def gpu_jobs(tmp_path):
    """Makes jobs of a machine with so many GPUs; None: all."""
    made = []

    def make(gpus=None):
        made.append(jobs_of(tmp_path / "jobs", gpus))
        return made[-1]

    yield make
    for one in made:
        for machine in one.backend.machines():
            one.backend.remove(machine)


@pytest.fixture
def holds(script, tmp_path):
    """A script that shows its GPUs and holds them until a file is there; and that file."""
    return {"script": script(HOLD), "args": [str(tmp_path / "go")]}, tmp_path / "go"


def shapes(backend):
    return [
        (f"{one.gpu_count} x {one.gpu}" if one.gpu else "CPU", one.max_nodes) for one in backend.supply.offers
    ]


def visible_to(jobs, record):
    return [line.split()[1:] for line in jobs.lines(record) if line.startswith("gpus ")]


def test_cards_that_google_does_not_sell_are_asked_for_by_any_of_their_names(machine):
    machine("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090")
    assert shapes(Local())[:-1] == [("2 x RTX 4090", 1), ("1 x RTX 4090", 2)]
    for name in ("RTX4090:2", "rtx-4090:2", "NVIDIA GeForce RTX 4090:2"):
        plan = Trainer(Local()).plan("train.py", gpu=name)
        assert plan.best.gpus == "2 x RTX 4090"


def test_gpus_are_allotted_to_all_nodes_or_to_none(tmp_path):
    locks, uuids = str(tmp_path / "locks"), ["GPU-a", "GPU-b", "GPU-c", "../GPU/d", "GPU-e"]
    first = supervisor.allot(uuids, 4, locks)
    assert list(first) == ["GPU-a", "GPU-b", "GPU-c", "../GPU/d"]
    assert sorted(os.listdir(locks)) == ["GPU-a", "GPU-b", "GPU-c", "___GPU_d"]
    assert os.stat(locks).st_mode & 0o7777 == 0o1777
    assert {os.stat(os.path.join(locks, one)).st_mode & 0o7777 for one in os.listdir(locks)} == {0o644}
    assert not supervisor.allot(uuids, 2, locks)
    second = supervisor.allot(uuids, 1, locks)  # the one that was free is free again
    assert list(second) == ["GPU-e"]
    supervisor.free(first)
    third = supervisor.allot(uuids, 3, locks)
    assert list(third) == ["GPU-a", "GPU-b", "GPU-c"]
    for one in (second, third):
        supervisor.free(one)


def test_a_lock_that_is_a_link_is_followed_nowhere(tmp_path):
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "GPU-a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        supervisor.allot(["GPU-a"], 1, str(tmp_path / "locks"))
    assert not (tmp_path / "elsewhere").exists()


@each(
    ("value", "indices"),
    [
        ("", []),
        ("-1", []),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("0,7,1", [0]),
        ("0,0", [0]),
        ("none", []),
        (" 2 , 1", [2, 1]),
        ("1,GPU-", [1]),  # the beginning of more than one
    ],
)
def test_cuda_visible_devices_of_the_caller_is_honoured(machine, monkeypatch, value, indices):
    uuids = machine(*["NVIDIA L4"] * 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [gpu.uuid for gpu in Local().gpus] == [uuids[index] for index in indices]


def test_gpus_caps_what_is_used(machine):
    machine(*["NVIDIA L4"] * 4)
    assert shapes(Local(gpus=1))[:-1] == [("1 x L4", 1)]
    assert shapes(Local(gpus=0)) == [("CPU", 16)]


def test_two_jobs_share_the_gpus_and_a_third_waits_for_one(machine, gpu_jobs, holds):
    machine("NVIDIA L4", "NVIDIA L4")
    jobs, (spec, go) = gpu_jobs(), holds
    first, second = (jobs.submit(**spec, gpu=1) for _ in range(2))
    for one in (first, second):
        jobs.until_said(one, "gpus")
    assert visible_to(jobs, first) != visible_to(jobs, second)
    third = jobs.submit(**spec, gpu=1)
    until(lambda: "waits for GPUs" in jobs.status(third).detail)
    assert jobs.state(third) is State.QUEUED
    go.touch()
    assert {jobs.end(one).result for one in (first, second, third)} == {"succeeded"}
