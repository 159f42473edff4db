"""What a long run costs beside its training: lines through the agent, a watcher, stacks, a hang's finding."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, Spread, peak_mib, with_byte_code

from gputrain import Local, Trainer

LINES = int(os.environ.get("LINES", "1000000"))
"""Printed by one rank; pages are as large in a log of five millions."""
IDLE_S, HANG_S, RANKS = 5.0, 10.0, 4
PRINTS = """
import sys, time
chunk = "".join(f"step {number} loss 0.123456\\n" for number in range(1000))
for _ in range(int(sys.argv[1]) // 1000):
    sys.stdout.write(chunk)
sys.stdout.flush()
time.sleep(float(sys.argv[2]))
"""
SLEEPS = "import time\nprint(time.time(), flush=True)\ntime.sleep(600)\n"


def measure() -> Iterator[Measure]:
    """All on this machine, with CPU ranks; processor time does not grow with load."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GPUTRAIN_HOME"] = folder
        prints, sleeps = Path(folder, "prints.py"), Path(folder, "sleeps.py")
        prints.write_text(PRINTS)
        sleeps.write_text(SLEEPS)
        trainer = Trainer(Local(gpus=0))
        yield agent_of_lines(prints, folder)
        yield from watcher(trainer, prints)
        yield from stacks(trainer, sleeps)
        yield hang(trainer, sleeps)


def agent_of_lines(script: Path, folder: str) -> Measure:
    """Seconds of a core that the agent, not the rank, takes for 200,000 lines."""
    command = [sys.executable, "-m", "gputrain.entrypoint", "--log-format=json", "--nproc-per-node=1", "--"]
    with open(Path(folder, "lines.log"), "wb") as log:
        before = _children_s()
        both = [*command, str(script), str(LINES), "0"]
        subprocess.run(both, stdout=log, env=with_byte_code(), check=True)
        spent = _children_s() - before
    rank = _children_s()
    with open(os.devnull, "wb") as nothing:
        subprocess.run([sys.executable, str(script), str(LINES), "0"], stdout=nothing, check=True)
    agent = spent - (_children_s() - rank)
    with open(Path(folder, "lines.log"), "rb") as log:
        told = sum(b'"message": "step ' in line for line in log)
    assert told == LINES, f"{LINES - told} lines were lost"
    return Measure(what="core of an agent at 200,000 lines/s", value=agent / LINES * 200_000, target=1.0)


def watcher(trainer: Trainer, script: Path) -> Iterator[Measure]:
    """Who watches a job that has printed much: memory at its peak, and a core while nothing comes."""
    job = trainer.submit(str(script), args=[str(LINES), "600"], nproc_per_node=1)
    said = sum(line.rank == 0 for line in _lines_until(job, LINES))
    assert said == LINES, f"{LINES - said} lines did not come"
    job.metrics()
    before = time.process_time()
    until = time.monotonic() + IDLE_S
    while time.monotonic() < until:
        job.refresh()
        job.metrics()
        time.sleep(job.poll_s)
    busy = 100 * (time.process_time() - before) / IDLE_S
    job.cancel()
    yield Measure(what=f"memory of a watcher of {LINES:,} lines", value=peak_mib(), target=100, unit="MB")
    yield Measure(what="core of a watcher while nothing comes", value=busy, target=2.0, unit="%")


def _lines_until(job, count):  # type: ignore[no-untyped-def]
    for number, line in enumerate(one for one in job.logs(follow=True) if one.rank == 0):
        yield line
        if number + 1 == count:
            return


def stacks(trainer: Trainer, script: Path) -> Iterator[Measure]:
    """From the question to the stacks of all ranks."""
    job = trainer.submit(str(script), nproc_per_node=RANKS)
    started = (line for line in job.logs(follow=True) if line.rank is not None)
    for _ in range(RANKS):
        next(started)
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        assert len(job.stacks().ranks) == RANKS
        took.append(time.perf_counter() - begin)
    job.cancel()
    yield Spread.of_times(took).measure(f"stacks of {RANKS} ranks after asking", target=2.0, unit="s")


def hang(trainer: Trainer, script: Path) -> Measure:
    """From the last line to the word that the job hangs, in hang timeouts."""
    job = trainer.submit(str(script), nproc_per_node=1, hang_timeout=f"{HANG_S:.0f}s")
    job.wait()
    assert job.failure is not None and job.failure.kind == "hang", job.failure  # noqa: PT018
    told = [line for line in job.logs() if "first cause" in line.message]
    spoke = next(float(line.message) for line in job.logs(rank=0))
    found = told[0].time
    assert found is not None
    return Measure(
        what="a hang is found / hang_timeout", value=(found.timestamp() - spoke) / HANG_S, target=1.1
    )


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
