"""The same training with a session: it reports, saves, stops when asked, and goes on where it was."""

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset

from gputrain import ddp

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=20)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--exact-resume", action="store_true")
args = parser.parse_args()

generator = torch.Generator().manual_seed(args.seed)
inputs = torch.randn(2048, 16, generator=generator)
dataset = TensorDataset(inputs, inputs.sin().sum(1, keepdim=True))

with ddp.session(seed=args.seed, exact_resume=args.exact_resume) as s:
    model = s.wrap(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    s.register(model=model, optimizer=optimizer)
    loader = s.loader(dataset, batch_size=32)

    for step, (x, y) in s.steps(loader, max_steps=args.steps, save_every=args.save_every):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.to(s.device)), y.to(s.device))
        loss.backward()
        optimizer.step()
        s.report(step=step, loss=loss)

    s.log(f"{s.step} steps are done, on {s.world_size} rank(s) in the end")
