"""A rank fails while its neighbour waits for it: you read the cause, not the broken connection."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
if rank == 1:
    raise ValueError("the labels of shard 1 are damaged")
dist.all_reduce(torch.ones(1))
