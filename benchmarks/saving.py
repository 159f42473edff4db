"""What an asynchronous save costs the steps made while it is written."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, with_byte_code

MIB = 256
SCRIPT = """
import json, sys, time
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

    times = {"idle": [], "saving": [], "copy": []}
    for number in range(1, 5):
        times["idle"] += [step() for _ in range(100)]
        begin = time.perf_counter()
        s.save(number)
        times["copy"].append(time.perf_counter() - begin)
        while not s.checkpoints.wait(0):
            times["saving"].append(step())
        times["idle"] += [step() for _ in range(100)]
    print(json.dumps(times))
"""


def measure() -> Iterator[Measure]:
    """Steps while a save is written and steps beside it take turns, so that load falls on both alike."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT)
        command = [sys.executable, str(script), str(Path(folder, "checkpoints")), str(MIB)]
        done = subprocess.run(command, env=with_byte_code(), capture_output=True, check=True)
    times = {name: statistics.median(values) for name, values in json.loads(done.stdout).items()}
    note = (
        f"{1e3 * times['saving']:.1f} ms / {1e3 * times['idle']:.1f} ms; a copy takes {times['copy']:.2g} s"
    )
    what = f"step while {MIB} MiB are saved / step"
    yield Measure(what=what, value=times["saving"] / times["idle"], target=1.1, note=note)
