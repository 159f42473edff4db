"""Train a character-level transformer on Shakespeare with as many ranks as there are."""

import argparse
import time
from pathlib import Path

import torch
from char_model import CharTransformer, Text, sample
from torch.nn.functional import cross_entropy

from gputrain import ddp

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data" / "shakespeare.txt")
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--save-every", type=int, default=50)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--exact-resume", action="store_true")
args = parser.parse_args()

with ddp.session(seed=args.seed, exact_resume=args.exact_resume) as s:
    text = Text(args.data, window=64)
    model = s.wrap(CharTransformer(len(text.characters), window=64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=20)
    s.register(model=model, optimizer=optimizer, schedule=schedule)
    loader = s.loader(text, args.batch_size, drop_last=True)
    tokens_per_step = args.batch_size * text.window * s.world_size

    tick = time.monotonic()
    for step, (x, y) in s.steps(loader, max_steps=args.steps, save_every=args.save_every):
        logits = model(x.to(s.device))
        loss = cross_entropy(logits.flatten(0, 1), y.to(s.device).flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        tick, before = time.monotonic(), tick
        s.report(step=step, loss=loss, tokens_per_s=round(tokens_per_step / (tick - before)))

    if s.is_main and s.step == args.steps:
        s.log(sample(model.module, text, start="ROMEO:\n", count=160))
