"""Custom jobs with real processes behind them."""

from __future__ import annotations

import sys
from typing import Any

from emulator.tests.live_guests import PATIENCE_S, nap, needs_walls, running, until
from emulator.tests.vertex_jobs import a_job, a_pool, client_of, create
from gputrain_emulator import Cloud
from gputrain_emulator.logging import Logs
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Job, State, Vertex


def submit(cloud: Cloud, *pools: tuple[int, str], env: dict[str, str] | None = None, **spec: Any) -> Job:
    """A job whose pools have so many replicas and run so much bash."""
    specs = []
    for replicas, script in pools:
        pool = a_pool(replicas=replicas)
        variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
        pool["container_spec"] |= {"command": ["bash", "-c"], "args": [script], "env": variables}
        specs.append(pool)
    made = create(cloud, client_of(cloud), a_job(*specs, **spec))
    return cloud.world.part(Vertex).jobs[made.name.rpartition("/")[2]]


def ends(cloud: Cloud, job: Job, *states: State) -> bool:
    return until(cloud, lambda: job.state in states)


def lines(cloud: Cloud, job: Job, task: str = "") -> list[Any]:
    """The entries of a job's replicas, as Logging has them."""
    logs = cloud.world.part(Logs)
    found = []
    for entry in logs.read((job.project.id,), now=float("inf")):
        labels = entry.document["resource"]["labels"]
        if (
            labels["job_id"] == job.id
            and labels["task_name"] not in ("service",)
            and task in labels["task_name"]
        ):
            found.append(entry.document)
    return found


def text(entries: list[Any]) -> str:
    return "\n".join(str(entry["jsonPayload"].get("message")) for entry in entries)


def test_a_job_succeeds_when_its_primary_does(live: Cloud) -> None:
    job = submit(live, (1, "echo primary"), (2, nap(70)))
    assert ends(live, job, State.SUCCEEDED)
    assert "primary" in text(lines(live, job, "workerpool0-0"))
    assert until(live, lambda: not running(nap(70)))


def test_every_replica_finds_itself_and_the_others_in_cluster_spec(live: Cloud) -> None:
    live.world.part(Storage).add_bucket("bucket", location="us-central1")
    script = (
        "echo spec=$CLUSTER_SPEC rank=$RANK/$WORLD_SIZE job=$CLOUD_ML_JOB_ID out=$AIP_MODEL_DIR"
        ' mine="$MINE" refers="$REFERS"'
    )
    job = submit(
        live,
        (1, nap(74)),
        (2, script),
        env={"MINE": "yes", "REFERS": "$(MINE)-$$(MINE)-$$$(RANK)-${MINE}-$(LATER)-$(", "LATER": "l"},
        base_output_directory={"output_uri_prefix": "gs://bucket/run"},
    )
    assert until(live, lambda: "spec=" in text(lines(live, job, "workerpool1-1")))
    said = text(lines(live, job, "workerpool1-1"))
    assert '"task": {"type": "workerpool1", "index": 1}' in said
    assert said.count(":2222") == 3
    assert f"rank=2/3 job={job.id} out=gs://bucket/run/model/ mine=yes" in said
    assert "refers=yes-$(MINE)-$2-${MINE}-$(LATER)-$(" in said, "as Kubernetes replaces references"


def test_replicas_meet_at_the_primarys_address(live: Cloud) -> None:
    primary = """python3 -c '
import os, json, socket
host, port = json.loads(os.environ["CLUSTER_SPEC"])["cluster"]["workerpool0"][0].split(":")
server = socket.create_server((host, int(port)))
print("got", server.accept()[0].recv(9).decode())'"""
    worker = """python3 -c '
import os, json, socket, time
host, port = json.loads(os.environ["CLUSTER_SPEC"])["cluster"]["workerpool0"][0].split(":")
while True:
    try: socket.create_connection((host, int(port))).sendall(b"hello"); break
    except ConnectionRefusedError: time.sleep(0.02)'"""
    jobs = [submit(live, (1, primary), (1, worker)) for _ in range(2)]  # side by side on the same port
    for job in jobs:
        assert ends(live, job, State.SUCCEEDED)
        assert "got hello" in text(lines(live, job))


def test_cancelling_a_job_sends_sigterm_and_the_job_ends_when_all_are_gone(live: Cloud) -> None:
    job = submit(live, (1, "trap 'echo stopping; exit 0' TERM; echo up; while :; do sleep 0.02; done"))
    assert until(live, lambda: "up" in text(lines(live, job)))
    client_of(live).cancel_custom_job(name=job.name, timeout=PATIENCE_S, retry=None)
    assert ends(live, job, State.CANCELLED)
    assert "stopping" in text(lines(live, job))


def test_a_command_is_needed_where_there_is_no_image_to_run(live: Cloud) -> None:
    job_id = create(live, client_of(live)).name.rpartition("/")[2]
    job = live.world.part(Vertex).jobs[job_id]
    assert ends(live, job, State.FAILED)
    assert "containerSpec.command must say what to run" in text(lines(live, job))


@needs_walls
def test_what_a_replica_wrote_under_gcs_outlives_a_preemption(live: Cloud) -> None:
    live.world.part(Storage).add_bucket("my-bucket")
    vertex = live.world.part(Vertex)
    script = f"cd /gcs/my-bucket; cat saved && exit 0; (echo step 5 > draft; mv draft saved); {nap(72)}"
    job = submit(live, (1, script), scheduling={"strategy": "SPOT"})
    stored = vertex.world.part(Storage).objects
    assert until(live, lambda: "saved" in [one.name for one in stored.walk("my-bucket")])
    vertex.preempt(job)
    assert ends(live, job, State.SUCCEEDED)
    assert "step 5" in text(lines(live, job))
    assert stored.get("my-bucket", "saved").content.read() == b"step 5\n"
    assert until(live, lambda: not running(nap(72)))


@needs_walls
def test_a_replica_writes_and_reads_with_gcsfs(live: Cloud) -> None:
    live.world.part(Storage).add_bucket("my-bucket")
    script = (
        "import gcsfs, os\n"
        "files = gcsfs.GCSFileSystem(token='anon', project='my-project')\n"
        "data = os.urandom(3 << 20)\n"
        "with files.open('my-bucket/blocks', 'wb', block_size=1 << 20) as out:\n"
        "    out.write(data)\n"
        "print('equal', files.cat('my-bucket/blocks') == data)\n"
    )
    job = submit(live, (1, f'exec {sys.executable} -c "{script}"'))
    assert ends(live, job, State.SUCCEEDED, State.FAILED)
    assert "equal True" in text(lines(live, job))
