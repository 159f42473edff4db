"""A process that watches job after job stays as large as it was after the first hundred."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from measure import Measure

import gputrain_emulator
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex
from gputrain_emulator.vertex.states import Fate

FIRST, ALL = 100, 10_000
REGION = "us-central1"
WATCHER = """
import gc, json, os, sys
from pathlib import Path
from gputrain import Trainer, VertexAI
from gputrain.backends.base import JobRef
from gputrain.gcp.endpoints import reach

url, start, first, last, folder = json.load(sys.stdin)
seconds = [start]

def nap(s):
    seconds[0] += s

def kib():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024

backend = VertexAI("my-project", "us-central1", bucket="gs://my-bucket", sleep=nap, now=lambda: seconds[0],
                   **reach(url))
trainer, script, sizes = Trainer(backend), Path(folder, "train.py"), []
for number in range(last):
    if number % 10 == 0:
        script.write_text(f"print({number})\\n")
        job = trainer.submit(str(script), gpu="L4:1")
        made = backend._jobs.document(backend._whereabouts.of(job.ref))
    else:
        name = f"job-{number}"
        fields = {key: made[key] for key in ("jobSpec", "labels")}
        fields["labels"] = {**fields["labels"], "gputrain-job": name}
        backend._jobs.create("us-central1", {"displayName": name, **fields})
        ref = JobRef(backend="vertex", project="my-project", place="us-central1", name=name)
        job = trainer.attach(ref.uri)
    while not job.refresh().state.is_terminal:
        nap(2)
    job.result()
    if number + 1 in (first, last):
        sizes.append(kib())
print(json.dumps(sizes))
"""


def watched(first: int, last: int) -> tuple[float, float]:
    """KiB of a process that has watched so many jobs to their ends, the emulator not counted."""
    with (
        tempfile.TemporaryDirectory() as folder,
        gputrain_emulator.start(rate_limits=False, polls_move_clock=True) as cloud,
    ):
        cloud.world.part(Storage).add_bucket("my-bucket", location=REGION)
        vertex = cloud.world.part(Vertex)
        vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10**6, region=REGION)
        vertex.set_fate(Fate(run_s=5))
        told = json.dumps([cloud.endpoints.url, cloud.clock.now(), first, last, folder])
        command = [sys.executable, "-c", WATCHER]
        done = subprocess.run(command, input=told, stdout=subprocess.PIPE, text=True, check=True)
    before, after = json.loads(done.stdout)
    return before, after


def measure() -> Iterator[Measure]:
    """Each job is watched to its end before the next is made; every tenth has code of its own."""
    before, after = watched(FIRST, ALL)
    what = f"memory after {ALL:,} jobs to that after {FIRST}"
    note = f"{before / 1024:.0f} MiB, then {after / 1024:.0f}"
    yield Measure(what=what, value=after / before, target=1.1, note=note)
