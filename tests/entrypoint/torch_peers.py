"""As peers.py, with torch and gloo: the symptoms are the real ones. Usage: torch_peers.py ENDING RANK STEP"""

import os
import signal
import sys

import torch
import torch.distributed as dist


def end(ending):
    if ending == "raise":
        raise ValueError(f"bad batch on rank {dist.get_rank()}")
    if ending == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "exit":
        os._exit(7)
    if ending == "leave":
        sys.exit(0)


ending, who, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo")
for number in range(step + 30):
    dist.all_reduce(torch.ones(100))
    if number == step and who == dist.get_rank():
        end(ending)
print(f"rank {dist.get_rank()} finished")
