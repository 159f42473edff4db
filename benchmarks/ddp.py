"""What a session adds to a training step of four ranks, and what `exact_resume` costs."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, Rounds, Spread, with_byte_code

IMPORT = "import time; a = time.perf_counter(); import gputrain.ddp; print(time.perf_counter() - a)"
EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPT = """
import json, sys, time
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler
from gputrain import ddp
sys.path.insert(0, sys.argv[2])
from char_model import CharTransformer, Text
from pathlib import Path

with ddp.session(device="cpu") as s:
    asked = []
    for _ in range(1000):
        begin = time.perf_counter()
        s.should_stop()
        asked.append(time.perf_counter() - begin)

    text = Text(Path(sys.argv[2], "data", "shakespeare.txt"), window=64)

    def trained(**options):
        model = s.wrap(CharTransformer(len(text.characters), window=64), **options)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    def step(trained, batches):
        model, optimizer = trained
        begin = time.perf_counter()
        x, y = next(batches)
        optimizer.zero_grad()
        cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        return time.perf_counter() - begin

    default, exact = trained(), trained(find_unused_parameters=True)  # what exact_resume sets
    plain = iter(DataLoader(text, 8, sampler=DistributedSampler(text)))
    ours = (batch for _, batch in s.steps(s.loader(text, 8), max_steps=100))
    kinds = {"plain": (default, plain), "ours": (default, ours), "exact": (exact, plain)}
    times = {name: [] for name in kinds}
    for number in range(70):
        for name, (model, batches) in kinds.items():
            took = step(model, batches)
            if number >= 10:
                times[name].append(took)
    if s.is_main:
        Path(sys.argv[1]).write_text(json.dumps({"asked": asked, **times}))
"""


def measure() -> Iterator[Measure]:
    """Plain, session's and exact steps take turns in the same ranks, so that load falls on all alike."""
    imported = Spread.of_times(import_s(), per=1e-3)
    yield imported.measure("import gputrain.ddp, warm byte code", target=30, unit="ms")
    took = ranks()
    asked = Spread.of_times(took.pop("asked"), per=1e-3)
    yield asked.measure("should_stop(), 4 ranks", target=1.0, unit="ms")
    steps = Rounds(took)
    for name, what in (("ours", "in a session"), ("exact", "with exact_resume")):
        note = f"{steps.note}; 1.0 but for noise"
        yield steps.ratio(name, "plain").measure(f"step {what} / plain DDP, 4 ranks", target=1.1, note=note)


def import_s() -> list[float]:
    """Fifteen fresh interpreters, after one that fills the cache of byte code."""
    return [
        float(
            subprocess.run(
                [sys.executable, "-c", IMPORT], env=with_byte_code(), capture_output=True, check=True
            ).stdout
        )
        for _ in range(16)
    ][1:]


def ranks() -> dict[str, list[float]]:
    """Seconds of a question and of each kind of step on four ranks, in the order in which they were taken."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "train.py"), Path(folder, "out")
        script.write_text(SCRIPT)
        command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node", "4", "--"]
        subprocess.run([*command, str(script), str(out), str(EXAMPLES)], check=True, capture_output=True)
        found: dict[str, list[float]] = json.loads(out.read_text())
        return found
