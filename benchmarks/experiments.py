"""Many jobs as one thing: a thousand points on the emulated Vertex AI, and how little it costs to wait.

python benchmarks/experiments.py          every figure but the kills
python benchmarks/experiments.py kills    a driver that is killed a hundred times
"""

import contextlib
import importlib.util
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from measure import Measure, Spread, alternated, timed_s

import gputrain
import gputrain_emulator
from gputrain.display.live import job_status
from gputrain.lifecycle import State
from gputrain.metrics import Reports
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex
from gputrain_emulator.vertex.states import Fate

POINTS = 1000
KILLS = 100
STARTS_S = 2.0
"""About as long as a driver takes to its first submit."""
WATCHED_S = 20.0
SMALL = 16
ROUNDS = 3
REPORTS = 100_000
DRIVER = """
import asyncio, json, resource, sys, threading, time
from google.oauth2.credentials import Credentials
import gputrain
from gputrain.google import Api, Endpoints

def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20

url, script, watched_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
everywhere = Endpoints(**{api.value: url for api in Api})
trainer = gputrain.Trainer(gputrain.VertexAI(
    "my-project", "us-central1", bucket="gs://my-bucket", endpoints=everywhere,
    credentials=Credentials(sys.argv[4])))
if watched_s:  # one that will be killed begins at once
    trainer.map(script, [{"n": -1}], name="warm", gpu="L4:1", max_parallel=1)
    time.sleep(3)
before, began = rss(), time.monotonic()
scan = trainer.map(script, gputrain.grid(n=range(COUNT)), name="many", gpu="L4:1", max_parallel=COUNT)
threads = 0
while len(scan.jobs) < len(scan.points) and not scan.errors:
    threads = max(threads, threading.active_count())
    time.sleep(0.2)
print(json.dumps({"submitted_s": time.monotonic() - began, "threads": threads,
                  "errors": [str(one) for one in scan.errors][:3]}), flush=True)

async def wait():
    gathered = asyncio.gather(*scan.jobs)
    try:
        await asyncio.wait_for(gathered, watched_s)
    except asyncio.TimeoutError:
        pass

if watched_s:
    sys.stdin.readline()
    threads = [0]
    def count():
        while True:
            threads[0] = max(threads[0], threading.active_count() - 1)
            time.sleep(0.5)
    threading.Thread(target=count, daemon=True).start()
    asyncio.run(wait())
    print(json.dumps({"threads": threads[0], "grown_mib": rss() - before}), flush=True)
""".replace("COUNT", str(POINTS))


@contextmanager
def emulated() -> Iterator[tuple[gputrain_emulator.Cloud, Path]]:
    """A cloud whose jobs run for ever, and a script."""
    start = gputrain_emulator.start(rate_limits=False, wall_clock=True)  # what is in doubt grows old
    with tempfile.TemporaryDirectory() as folder, start as cloud:
        script = Path(folder, "train.py")
        script.write_text("pass\n")
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        vertex = cloud.world.part(Vertex)
        vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10**6, region="us-central1")
        vertex.set_fate(Fate(run_s=float("inf")))
        yield cloud, script


def started(cloud: gputrain_emulator.Cloud, script: Path, watched_s: float) -> "subprocess.Popen[str]":
    """A driver in a process of its own."""
    asked = [cloud.endpoints.url, str(script), str(watched_s), str(cloud.credentials.token)]
    words = [sys.executable, "-c", DRIVER, *asked]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def names_of(cloud: gputrain_emulator.Cloud) -> Counter[str]:
    """How often each point's job was made."""
    made = list(cloud.world.part(Vertex).jobs.values())  # drivers make more meanwhile
    return Counter(name for one in made if (name := one.document["displayName"]).startswith("many-"))


def cloudy() -> Iterator[Measure]:
    """One process, a thousand points: submitted, watched, awaited."""
    with emulated() as (cloud, script):
        driver = started(cloud, script, WATCHED_S)
        assert driver.stdin is not None
        assert driver.stdout is not None
        told = json.loads(driver.stdout.readline())
        note = f"in {told['submitted_s']:.0f} s; {told['errors']}"
        what = f"threads that submit and watch {POINTS} points"
        yield Measure(what=what, value=told["threads"], target=4, unit="", note=note)
        cloud.dispatcher.requests.clear()
        driver.stdin.write("\n")
        driver.stdin.flush()
        told = json.loads(driver.stdout.readline())
        rate = len(cloud.requests) / WATCHED_S * 60
        yield Measure(what=f"requests a minute to await {POINTS} jobs", value=rate, target=150, unit="")
        yield Measure(what=f"threads to await {POINTS} jobs", value=told["threads"], target=2, unit="")
        yield Measure(what=f"memory of {POINTS} points", value=told["grown_mib"], target=60, unit="MiB")
        driver.wait()


def kills(count: int = KILLS, seed: int = 0) -> Iterator[Measure]:
    """A driver killed and run again: each point's job is made once.

    The kills are spread over the jobs at random, each at any moment of the road of the next one; where two
    fall together, the later driver dies while it starts, or looks for what came of the points in doubt.
    """
    chance, there, began = random.Random(seed), [], time.monotonic()
    with emulated() as (cloud, script):
        for when in sorted(chance.uniform(0, POINTS) for _ in range(count)):
            driver = started(cloud, script, 0.0)
            until = time.monotonic() + chance.uniform(0, STARTS_S)
            while driver.poll() is None and (len(names_of(cloud)) < when or time.monotonic() < until):
                time.sleep(chance.uniform(0, 0.02))
            driver.send_signal(signal.SIGKILL)
            assert driver.wait() in (-signal.SIGKILL, 0), "a driver ended by itself, and not well"
            there.append(len(names_of(cloud)))
            if not len(there) % 10:
                sys.stderr.write(f"{len(there)} kills: {there[-1]} jobs\n")
        driver = started(cloud, script, 0.0)
        driver.wait()
        made, took_s = names_of(cloud), time.monotonic() - began
        note = f"in {took_s:.0f} s; jobs at each tenth kill: {', '.join(map(str, there[9::10]))}"
        what = f"points without a job after {count} kills"
        yield Measure(what=what, value=POINTS - len(made), target=0, unit="", note=note)
        twice = sum(made.values()) - len(made)
        yield Measure(what=f"jobs made twice after {count} kills", value=twice, target=0, unit="")


def here() -> Iterator[Measure]:
    """This machine: many small jobs, and a wait in silence."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GPUTRAIN_HOME"] = folder
        trainer = gputrain.Trainer(gputrain.Local(gpus=0))
        small, loud = Path(folder, "small.py"), Path(folder, "loud.py")
        small.write_text("import time; time.sleep(0.2)")
        loud.write_text(
            "import time\n"
            f'for n in range({REPORTS}): print(\'GPUTRAIN_METRIC {{"step": %d, "loss": 1.5}}\' % n)\n'
            "print('done', flush=True)\ntime.sleep(600)\n"
        )
        runs = {"map": lambda: mapped(trainer, small), "hand": lambda: two_workers(trainer, small)}
        took = alternated(
            runs,
            rounds=ROUNDS,
            least=2,
            warm_up=0,
            until=lambda took: took.ratio("map", "hand").is_clear_of(1 / 0.9),
        )
        what = f"{SMALL} points on this machine / two workers by hand"
        yield took.ratio("map", "hand").measure(what, target=1 / 0.9, note=took.note)
        job = trainer.submit(str(loud))
        next(line for line in job.logs(follow=True, grep="^done"))
        shares = []
        for _ in range(3):
            spent = time.process_time()
            with contextlib.suppress(gputrain.JobTimeoutError):
                job.wait(timeout=3, progress="none")
            shares.append((time.process_time() - spent) / 3)
        what = f"of a core to wait in silence at {REPORTS} reports"
        yield Spread.of_times(shares, per=1e-2).measure(what, target=1, unit="%")
        job.cancel()
        job.wait()


def mapped(trainer: gputrain.Trainer, script: Path) -> float:
    """Seconds of an experiment."""
    points, name = gputrain.grid(n=range(SMALL)), f"small-{uuid.uuid4().hex[:8]}"
    began = time.monotonic()
    trainer.map(str(script), points, name=name, max_parallel=2, arguments=lambda _: ()).wait()
    return time.monotonic() - began


def two_workers(trainer: gputrain.Trainer, script: Path) -> float:
    """Seconds that two threads take, each of which submits and waits."""
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(SMALL):
        left.put(number)

    def work() -> None:
        while not left.empty():
            try:
                left.get_nowait()
            except queue.Empty:
                return
            trainer.submit(str(script), idempotency_key=uuid.uuid4().hex).wait(progress="none")

    began = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


def cell() -> Iterator[Measure]:
    """A notebook's cell of a long run; none where there are no notebooks."""
    if importlib.util.find_spec("IPython") is None:
        return
    from gputrain.display.live import Notebook

    reports = Reports()
    reports.add(f'GPUTRAIN_METRIC {{"step": {n}, "loss": {1 / (n + 1)}, "lr": 0.1}}' for n in range(REPORTS))
    status = job_status(
        title="long", state=State.RUNNING, elapsed=timedelta(hours=1), metrics=reports.metrics
    )
    notebook = Notebook()
    page = notebook._page(status)
    took = Spread.of_times([timed_s(lambda: notebook._page(status)) for _ in range(7)], per=1e-3)
    yield took.measure(f"to draw a cell of {REPORTS} reports", target=30, unit="ms")
    yield Measure(
        what=f"a cell of {REPORTS} reports", value=len(page["text/html"]) / 1e3, target=60, unit="KB"
    )


def measure() -> Iterator[Measure]:
    """All but the kills, which take ten minutes."""
    yield from cell()
    yield from cloudy()
    yield from here()


if __name__ == "__main__":
    PARTS = {"kills": kills, "cloudy": cloudy, "here": here, "cell": cell}
    for one in PARTS.get(" ".join(sys.argv[1:]), measure)():
        sys.stdout.write(f"{one.what}: {one.value:.3g} {one.unit} (target {one.target:.3g}) {one.note}\n")
        sys.stdout.flush()
