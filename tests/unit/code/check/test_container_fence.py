"""Containers of a job with a record: what they do by it before the agent starts, and while ranks run."""

import json

import pytest

from gputrain.google import Objects
from gputrain.runtime import contract
from tests.each import each
from tests.support.records import BETWEEN, OTHER, OURS, Records
from tests.unit.code.containers import BUCKET, containers, told

PLACE = f"jobs/bert/{OURS.attempt.id}/"
FENCE = {
    contract.RECORD: "records/bert.json",
    contract.ATTEMPT_ID: OURS.attempt.id,
    contract.CLAIM: PLACE + "claim",
}
REAL = b"from gputrain.entrypoint import main\n\nmain()\n"
TRAIN = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["OUT"])
def save(*_):
    (folder / "saved").write_text("whole")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
time.sleep(600)
"""


@pytest.fixture
def world():
    with containers() as world:
        world.write = Records(world.cloud).write
        yield world


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def replica(pool):
    spec = {
        "cluster": {"workerpool0": ["a:2222"], "workerpool1": ["b:2222"]},
        "task": {"type": pool, "index": 0},
    }
    return json.dumps(spec)


def claim(world):
    found = Objects(world.access, BUCKET.name).read(PLACE + "claim")
    return found and found.content.decode()


def test_the_first_job_of_an_attempt_claims_it_and_its_restart_goes_on(world, code):
    world.write(OURS)
    order = world.stage(code)
    for _ in range(2):
        status, output = world.run(order, CLOUD_ML_JOB_ID="7", **FENCE)
        assert status == 0, output
        env = told(output)["env"]
        assert not {*FENCE, contract.RUN_DIR} & env.keys(), "a node alone meets nobody"
    assert claim(world) == "7"


@each("has_record", [True, False])
def test_the_replicas_of_a_job_share_a_run_directory(world, code, has_record):
    """Also those of a job that a person made with gcloud, of which there is no record."""
    fence = {name: value for name, value in FENCE.items() if has_record or name != contract.RECORD}
    if has_record:
        world.write(OURS)
    order, seen = world.stage(code), []
    for pool in ("workerpool0", "workerpool1", "workerpool0"):
        status, output = world.run(order, CLOUD_ML_JOB_ID="7", CLUSTER_SPEC=replica(pool), **fence)
        assert status == 0, output
        seen.append(told(output)["env"][contract.RUN_DIR])
    assert set(seen) == {f"{world.cloud.endpoints.storage}/{BUCKET.name}/{PLACE[:-1]}"}


def test_a_replica_whose_node_0_never_comes_ends_when_the_time_to_join_is_over(world, code):
    world.write(OURS)
    env = {**FENCE, "CLOUD_ML_JOB_ID": "7", "CLUSTER_SPEC": replica("workerpool1")}
    status, output = world.run(world.stage(code), GPUTRAIN_JOIN_TIMEOUT="0", **env)
    assert status == contract.NODE_LOST
    assert "node 0 took no claim" in output


def test_all_replicas_of_the_second_job_of_an_attempt_do_nothing_and_end_well(world, code):
    world.write(OURS)
    order = world.stage(code)
    for number, pool, trains in (
        ("7", "workerpool0", True), ("8", "workerpool0", False), ("8", "workerpool1", False),
        ("7", "workerpool1", True),
    ):  # fmt: skip
        status, output = world.run(order, CLOUD_ML_JOB_ID=number, CLUSTER_SPEC=replica(pool), **FENCE)
        assert (status, "agent {" in output, "superseded: job 7" in output) == (0, trains, not trains), output
    assert claim(world) == "7"


@each(("record", "says"), [(OURS.cancel(), "cancelled"), (OTHER, "superseded"), (BETWEEN, "superseded")])
def test_a_container_that_may_not_train_ends_well_before_it_claims(record, says, world, code):
    world.write(record)
    status, output = world.run(world.stage(code), CLOUD_ML_JOB_ID="7", **FENCE)
    assert (status, "agent {" in output, f"{says}, as the job's record says" in output) == (0, False, True)
    assert claim(world) is None


ENDS = b"""
import os, sys, time
print("agent", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
sys.exit(75)
"""


def test_a_node_that_ends_before_it_hears_of_the_cancel_ends_well(world, code, tmp_path):
    """Another node heard of it first, and stopped the ranks of all."""
    world.write(OURS)
    go = tmp_path / "go"
    running = world.start(world.stage(code, ENDS), CLOUD_ML_JOB_ID="7", GO=str(go), **FENCE)
    assert any("agent" in line for line in iter(running.stdout.readline, ""))
    world.write(OURS.cancel())
    go.write_text("")
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 0, output


@each(("record", "saves"), [(OURS.cancel(), True), (OTHER, False)])
def test_ranks_save_when_their_job_is_cancelled_and_are_killed_when_superseded(
    record, saves, world, code, tmp_path
):
    tmp_path.mkdir(exist_ok=True)
    world.write(OURS)
    order = {**world.stage(code, REAL), "argv": ["train.py"]}
    running = world.start(order, CLOUD_ML_JOB_ID="7", OUT=str(tmp_path), GPUTRAIN_NPROC_PER_NODE="1", **FENCE)
    assert any("training" in line for line in iter(running.stdout.readline, ""))
    world.write(record)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 0, output
    assert (tmp_path / "saved").exists() is saves
    results = [line for line in output.splitlines() if line.startswith(contract.RESULT_MARKER)]
    assert [json.loads(line.partition(" ")[2])["state"] for line in results] == ["stopped"] * saves
