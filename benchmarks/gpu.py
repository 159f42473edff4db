"""The agent adds nothing to a step on GPUs either."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from entrypoint import TIMED, agents, bare, finish, first_steps, torchrun
from measure import Measure

from gputrain.backends.local.offers import find_gpus

SCRIPT = """
import json, os, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local)
torch.cuda.set_device(device)
torch.manual_seed(0)
dist.init_process_group("nccl", device_id=device)
layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = DistributedDataParallel(nn.TransformerEncoder(layer, 8).to(device), device_ids=[local])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(16, 512, 1024, device=device)

def step():
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
"""


def measure() -> Iterator[Measure]:
    """As `entrypoint` measures it, with NCCL, on all GPUs of this machine."""
    each = len(find_gpus())
    if not each:
        raise RuntimeError("nvidia-smi finds no GPU here")
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "train.py"), Path(folder, "out")
        script.write_text(SCRIPT + TIMED)
        target = [str(script), str(out)]
        ways = {"bare": bare, "entrypoint": agents, "torchrun": torchrun}
        starts = {name: way(1, target, each) for name, way in ways.items()}
        finish(starts["torchrun"]())  # fills the caches
        yield from first_steps(f"{each} GPUs" if each > 1 else "a GPU", starts, out, target_ratio=0.95)
