"""What a session adds to a training step of four ranks, and what `exact_resume` costs."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, _with_byte_code

IMPORT = "import time; a = time.perf_counter(); import gputrain.ddp; print(time.perf_counter() - a)"
EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPT = """
import json, statistics, sys, time
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler
from gputrain import ddp
sys.path.insert(0, sys.argv[2])
from char_model import CharTransformer, Text
from pathlib import Path

def median(times): return statistics.median(times)

with ddp.session(device="cpu", exact_resume=sys.argv[3] == "exact") as s:
    asked = []
    for _ in range(1000):
        begin = time.perf_counter()
        s.should_stop()
        asked.append(time.perf_counter() - begin)

    text = Text(Path(sys.argv[2], "data", "shakespeare.txt"), window=64)
    model = s.wrap(CharTransformer(len(text.characters), window=64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plain = iter(DataLoader(text, 8, sampler=DistributedSampler(text)))
    ours = (batch for _, batch in s.steps(s.loader(text, 8), max_steps=100))

    def step(batches):
        begin = time.perf_counter()
        x, y = next(batches)
        optimizer.zero_grad()
        cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        return time.perf_counter() - begin

    times = {"plain": [], "ours": []}
    for number in range(70):
        for name, batches in (("plain", plain), ("ours", ours)):
            took = step(batches)
            if number >= 10:
                times[name].append(took)
    if s.is_main:
        Path(sys.argv[1]).write_text(json.dumps(
            {"asked": median(asked), **{name: median(values) for name, values in times.items()}}))
"""


def measure() -> Iterator[Measure]:
    """A plain loop and a session's loop take turns step by step in the same ranks."""
    yield Measure(what="import gputrain.ddp, warm byte code", value=1e3 * import_s(), target=30, unit="ms")
    default, exact = ranks("default"), ranks("exact")
    yield Measure(what="should_stop(), 4 ranks", value=1e3 * default["asked"], target=1.0, unit="ms")
    note = f"{1e3 * default['ours']:.1f} ms / {1e3 * default['plain']:.1f} ms; 1.0 but for noise"
    yield Measure(
        what="step in a session / plain loop, 4 ranks",
        value=default["ours"] / default["plain"],
        target=1.1,
        note=note,
    )
    note = f"{1e3 * exact['plain']:.1f} ms / {1e3 * default['plain']:.1f} ms, apart in time"
    yield Measure(
        what="step with exact_resume / without",
        value=exact["plain"] / default["plain"],
        target=1.15,
        note=note,
    )


def import_s() -> float:
    """The middle one of 15 fresh interpreters."""
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", IMPORT], env=_with_byte_code(), capture_output=True, check=True
            ).stdout
        )
        for _ in range(16)
    ]
    return sorted(times[1:])[7]


def ranks(mode: str) -> dict[str, float]:
    """Median seconds of a question, a plain step and a session's step on four ranks."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "train.py"), Path(folder, "out")
        script.write_text(SCRIPT)
        command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node", "4", "--"]
        subprocess.run(
            [*command, str(script), str(out), str(EXAMPLES), mode], check=True, capture_output=True
        )
        found: dict[str, float] = json.loads(out.read_text())
        return found
