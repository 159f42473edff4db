"""Bodies of ranks for `test_ddp_shards.py`; the first argument names one."""

from __future__ import annotations

import os
import signal
import sys

import torch
from torch import nn

from gputrain import ddp


class Net(nn.Module):
    """Blocks in a list, an uneven width (7 rows on 2 or 4 ranks), and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 6)) for _ in range(2)]
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(6, 1)
        self.register_buffer("scale", torch.full((1,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.head(x) * self.scale


def train(strategy: str, until: str, *words: str) -> None:
    """The same items at each step for any number of ranks: 24 of them, shared out."""
    with ddp.session(device="cpu", seed=3, async_save="async" in words) as s:
        model = s.wrap(Net(), strategy=strategy)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        s.register(model=model, optimizer=optimizer)
        fixed = torch.Generator().manual_seed(5)
        data = torch.randn(24 * 4, 6, generator=fixed)
        s.resume(allow_world_size_change=True)
        loader = s.loader(torch.utils.data.TensorDataset(data), batch_size=24 // s.world_size)
        for step, (x,) in s.steps(loader, max_steps=int(until), save_every=2):
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            torch.distributed.all_reduce(total)
            s.report(step=step, loss=total / s.world_size)


def stopped_without_time() -> None:
    with ddp.session(device="cpu", async_save=True, stop_within_s=0.0) as s:
        s.checkpoints.save(1, "small")
        s.checkpoints.begin(2, torch.zeros(50_000_000))
        os.kill(os.getpid(), signal.SIGTERM)
        assert s.should_stop()
        s.save(3)


def before_the_first_step(strategy: str, part: str) -> None:
    with ddp.session(device="cpu") as s:
        model = s.wrap(Net(), strategy=strategy)
        optimizer = torch.optim.AdamW(model.parameters())
        s.register(model=model, optimizer=optimizer)
        if part == "save":
            s.save(1)
        else:
            s.log(f"resumed {s.resume()}, state {len(optimizer.state)}")


def another_shape() -> None:
    with ddp.session(device="cpu") as s:
        model = s.wrap(nn.Linear(6, 8 if s.checkpoints.latest() else 4), strategy="fsdp")
        s.register(model=model)
        if s.checkpoints.latest():
            s.resume()
        else:
            s.save(1)


def whole_tensors() -> None:
    with ddp.session(device="cpu") as s:
        found = s.checkpoints.restore(allow_world_size_change=True)
        assert found is not None
        weight = found.shared["objects"]["model"]["head.weight"]
        s.log(f"{type(weight).__name__} {tuple(weight.shape)}", all_ranks=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
