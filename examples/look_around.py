"""What a machine is like, a line of a megabyte, and whether its GPUs reach others; see first_real_run.py."""

import resource
import subprocess

import torch
import torch.distributed as dist

QUESTIONS = (
    "nvidia-smi",
    "nvidia-smi --query-gpu=fabric.state,fabric.status --format=csv,noheader",
    "modinfo nvidia | grep -i -e license -e ^version",
    "df -h",
    "ls -l /dev/disk/by-id /dev/infiniband /usr/local/gib",
    "which docker nvidia-ctk mdadm python3",
    "ip -br addr",
    "env | cut -d= -f1 | sort | tr '\\n' ' '",
    "systemctl list-units --failed --no-pager",
    "pip list | grep -i -e torch -e nvidia",
)
has_gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if has_gpu else "gloo")
if dist.get_rank() == 0:
    for question in QUESTIONS:
        done = subprocess.run(question, shell=True, capture_output=True, text=True, check=False)
        print("$", question, done.stdout, done.stderr, sep="\n")
    print("torch", torch.__version__, "CUDA", torch.version.cuda, "sees", torch.cuda.device_count())
    print("open files", resource.getrlimit(resource.RLIMIT_NOFILE), "a long line:", "x" * 1_000_000)
ones = torch.ones(1, device="cuda" if has_gpu else "cpu")
dist.all_reduce(ones)
print("sum", ones.item(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
