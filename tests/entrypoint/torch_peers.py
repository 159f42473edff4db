"""As peers.py, with torch and gloo: the symptoms are the real ones. Usage: torch_peers.py ENDING RANK STEP"""

import sys

import torch
import torch.distributed as dist
from peers import end

ending, who, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo")
for number in range(step + 30):
    dist.all_reduce(torch.ones(100))
    if number == step and who == dist.get_rank():
        end(ending)
print(f"rank {dist.get_rank()} finished")
