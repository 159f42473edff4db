"""What an asynchronous save costs the steps made while it is written."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, Rounds, Spread, with_byte_code

MIB = 1024
EVERY_S = 600
"""How often a run saves: a checkpoint each ten minutes."""
SCRIPT = """
import json, statistics, sys, time
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from gputrain import ddp

torch.set_num_threads(1)  # as beside a GPU: the training needs one core
with ddp.session(device="cpu", checkpoint_dir=sys.argv[1], async_save=True) as s:
    mesh = init_device_mesh("cpu", (1,))
    parts = range(int(sys.argv[2]) // 16)
    weights = {str(part): distribute_tensor(torch.randn(2**22), mesh, [Shard(0)]) for part in parts}
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(20)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    s.register(model=model, weights=weights)
    x = torch.randn(64, 256)

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        return time.perf_counter() - begin

    times = {"idle": [], "saving": [], "copy": [], "beside": []}
    for number in range(1, 5):
        idle, saving = [step() for _ in range(100)], []
        begin = time.perf_counter()
        s.save(number)
        times["copy"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        while not s.checkpoints.wait(0):
            saving.append(step())
        times["beside"].append(time.perf_counter() - begin)
        idle += [step() for _ in range(100)]
        times["idle"].append(statistics.median(idle))
        times["saving"].append(statistics.median(saving))
    print(json.dumps(times))
"""


def measure() -> Iterator[Measure]:
    """Steps while a save is written and steps beside it take turns, so that load falls on both alike."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT)
        command = [sys.executable, str(script), str(Path(folder, "checkpoints")), str(MIB)]
        done = subprocess.run(command, env=with_byte_code(), capture_output=True, check=True)
    took = Rounds(json.loads(done.stdout))
    what = f"step while {MIB} MiB are saved / step"
    yield took.ratio("saving", "idle").measure(what, target=1.1, note=took.note)
    columns = (took.figures[name] for name in ("copy", "beside", "idle", "saving"))
    lost = [copy + beside * (1 - idle / saving) for copy, beside, idle, saving in zip(*columns)]
    what = f"share of a run that saves {MIB} MiB every {EVERY_S // 60} minutes"
    yield Spread.of_times(lost, per=EVERY_S / 100).measure(what, target=1.0, unit="%")
