"""A small training run for the preemption laws to interrupt: dropout, momentum, schedule, shuffled data."""

from __future__ import annotations

import hashlib
import sys

import torch
from torch import nn

from gputrain import ddp

STEPS, SAVE_EVERY = int(sys.argv[1]), int(sys.argv[2])
EXACT = "--exact-resume" in sys.argv
SPREAD = "--spread" in sys.argv

with ddp.session(exact_resume=EXACT, seed=11, async_save=SPREAD) as s:
    fixed = torch.Generator().manual_seed(5)
    inputs = torch.randn(512, 16, generator=fixed)
    targets = inputs.sum(1, keepdim=True).sin() + torch.randn(512, 1, generator=fixed)
    layers = [nn.Linear(16, 48), nn.Tanh(), nn.Dropout(0.1), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1)]
    model = s.wrap(nn.Sequential(*layers), strategy="fsdp" if SPREAD else "ddp")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.9)
    s.register(model=model, optimizer=optimizer, schedule=schedule)
    loader = s.loader(torch.utils.data.TensorDataset(inputs, targets), batch_size=8)
    for step, (x, y) in s.steps(loader, max_steps=STEPS, save_every=SAVE_EVERY):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        s.report(step=step, loss=loss)
    state = model.state_dict() if SPREAD else model.module.state_dict()
    tensors = [value.full_tensor() if SPREAD else value for value in state.values()]
    weights = b"".join(value.numpy().tobytes() for value in tensors)
    s.log(f"weights {hashlib.sha256(weights).hexdigest()}", all_ranks=True)
