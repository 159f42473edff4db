"""What a session adds to a training step of four ranks, and what `exact_resume` costs."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, with_byte_code

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
        medians = {name: statistics.median(values) for name, values in {"asked": asked, **times}.items()}
        Path(sys.argv[1]).write_text(json.dumps(medians))
"""


def measure() -> Iterator[Measure]:
    """Plain, session's and exact steps take turns in the same ranks, so that load falls on all alike."""
    yield Measure(what="import gputrain.ddp, warm byte code", value=1e3 * import_s(), target=30, unit="ms")
    took = {name: 1e3 * seconds for name, seconds in ranks().items()}
    yield Measure(what="should_stop(), 4 ranks", value=took["asked"], target=1.0, unit="ms")
    for name, what in (("ours", "in a session"), ("exact", "with exact_resume")):
        note = f"{took[name]:.1f} ms / {took['plain']:.1f} ms; 1.0 but for noise"
        yield Measure(
            what=f"step {what} / plain DDP, 4 ranks", value=took[name] / took["plain"], target=1.1, note=note
        )


def import_s() -> float:
    """The middle one of 15 fresh interpreters."""
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", IMPORT], env=with_byte_code(), capture_output=True, check=True
            ).stdout
        )
        for _ in range(16)
    ]
    return sorted(times[1:])[7]


def ranks() -> dict[str, float]:
    """Median seconds of a question and of each kind of step on four ranks."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "train.py"), Path(folder, "out")
        script.write_text(SCRIPT)
        command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node", "4", "--"]
        subprocess.run([*command, str(script), str(out), str(EXAMPLES)], check=True, capture_output=True)
        found: dict[str, float] = json.loads(out.read_text())
        return found
