"""A process that watches job after job stays as large as it was after the first hundred.

``python benchmarks/memory.py vertex 10000`` watches so many, of ``vertex``, ``compute`` or ``local``.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import Measure

ALL = {"vertex": (100, 300), "compute": (40, 120), "local": (15, 40)}
"""What `run.py` has the time for: whatever is kept of each job is seen in some hundreds, too."""
FIRST = 100
REGION = "us-central1"


def measure() -> Iterator[Measure]:
    """Fewer than the 10,000 that are promised, as those take twenty minutes; side by side, each in a process
    of its own, as what is kept of a job does not grow with load.
    """
    with ThreadPoolExecutor(max_workers=len(ALL)) as pool:
        yield from pool.map(lambda one: growth(one[0], one[1][1], one[1][0]), ALL.items())


def growth(backend: str, last: int, first: int = FIRST) -> Measure:
    """Each job is watched to its end before the next is made."""
    before, after = watched(first, last, backend)
    what = f"memory after {last:,} jobs of {backend} / after {first}"
    note = f"{before / 1024:.0f} MiB, then {after / 1024:.0f}"
    return Measure(what=what, value=after / before, target=1.1, note=note)


def watched(first: int, last: int, backend: str = "vertex") -> tuple[float, float]:
    """KiB of a process that has watched so many jobs to their ends, the emulator not counted."""
    import gputrain_emulator
    from gputrain_emulator.storage import Storage
    from gputrain_emulator.vertex import Vertex
    from gputrain_emulator.vertex.states import Fate

    with (
        tempfile.TemporaryDirectory() as folder,
        gputrain_emulator.start(rate_limits=False, polls_move_clock=True) as cloud,
    ):
        cloud.world.part(Storage).add_bucket("my-bucket", location=REGION)
        vertex = cloud.world.part(Vertex)
        vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10**6, region=REGION)
        vertex.set_fate(Fate(run_s=5))
        for metric in ("NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
            cloud.quota(metric, 10**6)
        told = json.dumps([backend, cloud.endpoints.url, cloud.clock.now(), first, last, folder])
        command = [sys.executable, __file__, "watch", told]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    before, after = json.loads(done.stdout)
    return before, after


class Watcher:
    """The process that makes jobs and watches them, one after the other, by a clock of its own."""

    def __init__(self, backend: str, url: str, start: float, folder: str) -> None:
        import gputrain
        from gputrain.google.endpoints import reach

        self.url, self.seconds = url, start
        self.script = Path(folder, "train.py")
        clock: dict[str, Any] = {"sleep": self.nap, "now": lambda: self.seconds}
        common = {"bucket": "gs://my-bucket", **clock, **reach(url)}
        kinds: dict[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
            "vertex": (lambda: gputrain.VertexAI("my-project", REGION, **common), self.of_vertex),
            "compute": (
                lambda: gputrain.ComputeEngine("my-project", regions=[REGION], **common),
                self.of_compute,
            ),
            "local": (lambda: gputrain.Local(gpus=0, root=Path(folder, "jobs")), self.of_local),
        }
        make_backend, self.job = kinds[backend]
        self.backend = make_backend()
        self.trainer = gputrain.Trainer(self.backend)

    def nap(self, seconds: float) -> None:
        self.seconds += seconds

    def written(self, number: int) -> str:
        self.script.write_text(f"print({number})\n")
        return str(self.script)

    def of_vertex(self, number: int) -> Any:
        """Every tenth has code of its own."""
        return self.trainer.submit(self.written(number // 10), gpu="L4:1")

    def of_compute(self, number: int) -> Any:
        """Its guest says that it has ended, and its VM goes."""
        from gputrain.google import Objects

        job = self.trainer.submit(self.written(number // 10), gpu="L4:1")
        self.nap(100)
        attempt = job.machines[0].split("-")[-2]
        told = f"jobs/{job.id}/{attempt}/status-0.json"
        done = {"schema": 1, "state": "done", "exit_code": 0}
        word = json.dumps({"schema": 2, "phase": "ended", "exit_code": 0, "result": done}).encode()
        Objects(self.backend._access, "my-bucket").write(told, word, if_generation=None)
        self.backend._calls.delete(job.candidate.place, job.machines[0])
        return job

    def of_local(self, number: int) -> Any:
        """A process of its own, in earnest."""
        job = self.trainer.submit(self.written(number))
        job.wait(progress="none")
        return job

    def watch(self, first: int, last: int) -> list[float]:
        """KiB after so many jobs, and after all."""
        sizes = []
        for number in range(last):
            job = self.job(number)
            while not job.refresh().state.is_terminal:
                self.nap(2)
            job.result()
            if number + 1 in (first, last):
                sizes.append(kib())
        return sizes


def kib() -> float:
    """What this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


if __name__ == "__main__":
    if sys.argv[1] == "watch":
        backend, url, start, first, last, folder = json.loads(sys.argv[2])
        sys.stdout.write(json.dumps(Watcher(backend, url, start, folder).watch(first, last)))
    else:
        sys.stdout.write(f"{growth(sys.argv[1], int(sys.argv[2]))}\n")
