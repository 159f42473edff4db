"""A plain DistributedDataParallel script. It knows nothing of gputrain, and gputrain runs it as it is."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local_rank) if gpu else torch.device("cpu")

torch.manual_seed(args.seed)
inputs = torch.randn(2048, 16)
targets = inputs.sin().sum(1, keepdim=True)
dataset = TensorDataset(inputs, targets)
sampler = DistributedSampler(dataset, seed=args.seed)
loader = DataLoader(dataset, batch_size=32, sampler=sampler)

network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
model = DistributedDataParallel(network, device_ids=[local_rank] if gpu else None)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
    if rank == 0:
        print(f"epoch {epoch}: loss {total / len(loader):.4f}", flush=True)

dist.destroy_process_group()
