"""What the ranks of a job on this machine are given, and what nobody else gets to see."""

import json
import os
import stat

import pytest

from gputrain.backends.local import request as orders
from gputrain.runtime import host

DUMP = """
import json, os, sys
where = os.path.join(os.environ["DUMP"], os.environ.get("RANK", "0"))
with open(where, "w") as file:
    raw = {name.decode("latin-1"): value.decode("latin-1") for name, value in os.environb.items()}
    json.dump({"env": raw, "argv": sys.argv, "cwd": os.getcwd()}, file)
"""


@pytest.fixture
def dump(tmp_path, monkeypatch, script):
    """A script that writes down what it was given, and a way to read it."""
    folder = tmp_path / "dump"
    folder.mkdir()
    monkeypatch.setenv("DUMP", str(folder))
    return script(DUMP), lambda rank=0: json.loads((folder / str(rank)).read_text())


def test_a_source_dir_is_where_the_ranks_of_all_nodes_run_and_they_meet_at_the_first(jobs, dump):
    path, read = dump
    folder = os.path.dirname(os.path.dirname(path))
    record = jobs.end(jobs.submit(script="code/train.py", source_dir=folder, num_nodes=2))
    for rank in range(2):
        assert (read(rank)["cwd"], read(rank)["argv"]) == (folder, ["code/train.py"])
        assert read(rank)["env"]["MASTER_ADDR"] in (orders.address(record.job_id, 0), "127.0.0.1")
        assert read(rank)["env"]["OMP_NUM_THREADS"] == str(max(1, host.cpu_count() // 2))


def test_folders_are_made_and_given_as_whole_paths(jobs, dump, tmp_path, monkeypatch):
    path, read = dump
    monkeypatch.chdir(tmp_path)
    jobs.end(jobs.submit(script=path, checkpoint_dir="a/ckpt", output_dir="out"))
    env = read()["env"]
    assert env["GPUTRAIN_CHECKPOINT_DIR"] == str(tmp_path / "a" / "ckpt")
    assert env["GPUTRAIN_OUTPUT_DIR"] == str(tmp_path / "out")
    assert (tmp_path / "a" / "ckpt").is_dir()
    assert (tmp_path / "out").is_dir()


@pytest.mark.check
def test_a_job_inside_a_job_is_a_job_of_its_own(jobs, dump, monkeypatch):
    path, read = dump
    for name, value in {
        "GPUTRAIN_NODE_RANK": "7",
        "GPUTRAIN_NUM_NODES": "9",
        "GPUTRAIN_RUN_DIR": "/outer/run",
        "GPUTRAIN_CHECKPOINT_DIR": "/outer",
        "GPUTRAIN_ATTEMPT": "4",
        "RANK": "5",
        "WORLD_SIZE": "8",
        "MASTER_ADDR": "10.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    assert jobs.end(jobs.submit(script=path, nproc_per_node=2)).result == "succeeded"
    env = read(rank=1)["env"]
    assert (env["RANK"], env["WORLD_SIZE"], env["NODE_RANK"], env["GPUTRAIN_ATTEMPT"]) == ("1", "2", "0", "0")
    assert env["GPUTRAIN_CHECKPOINT_DIR"] != "/outer"
    assert env["MASTER_ADDR"].startswith("127.")


def test_what_is_kept_of_a_job_is_for_its_owner_alone(jobs, dump):
    record = jobs.end(jobs.submit(script=dump[0]))
    for folder, _, names in os.walk(jobs.root):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
        for name in names if folder == str(jobs.folder(record)) else ():
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600, name
    assert jobs.folder(record).exists()


def test_an_environment_that_looks_secret_is_not_written_down(jobs, dump, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "a-key-of-the-caller")
    path, read = dump
    jobs.end(jobs.submit(script=path))
    assert read()["env"]["WANDB_API_KEY"] == "a-key-of-the-caller"
    for one in jobs.root.rglob("*"):
        assert one.is_dir() or b"a-key-of-the-caller" not in one.read_bytes(), one
