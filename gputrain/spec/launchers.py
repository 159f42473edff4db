"""Launchers inside a command, which start ranks by themselves and know nothing of the other nodes."""

from __future__ import annotations

import os
import re

from gputrain.spec.spec import TrainingSpec

_PROGRAMS = {"torchrun": "--nnodes", "accelerate": "--num_machines", "deepspeed": "--hostfile"}
"""Launcher -> its option for several nodes."""
_MODULES = {
    "torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate", "deepspeed": "deepspeed",
}  # fmt: skip


def launcher_warning(spec: TrainingSpec) -> str:
    """What to write instead of a launcher that would train apart on each node; empty where none would."""
    command = spec.command or (*(spec.entrypoint or ()), *spec.args)
    words = [part for word in command for part in re.split(r"[\s;&|]+", word)]  # also of bash -c
    names = [_MODULES.get(word) or os.path.basename(word) for word in words]
    launcher = next((name for name in names if name in _PROGRAMS), "")
    if spec.num_nodes == 1 or not launcher:
        return ""
    option = _PROGRAMS[launcher]
    if any(word.replace("_", "-").startswith(option.replace("_", "-")) for word in words):
        return ""
    script = next((word for word in words if word.endswith(".py")), "train.py")
    count = re.search(r"--(?:nproc.per.node|num.processes|num.gpus)[=\s]+(\d+)", " ".join(words))
    ranks = f", nproc_per_node={count[1]}" if count else ""
    fix = f"name the script instead: script={script!r}{ranks}"
    if launcher == "torchrun":
        fix += (
            "; or run it by a shell with --nnodes=$GPUTRAIN_NUM_NODES --node-rank=$GPUTRAIN_NODE_RANK"
            " --master-addr=$GPUTRAIN_MASTER_ADDR"
        )
    nodes = f"each of {spec.num_nodes} nodes would train its own copy"
    return f"{launcher} in the command does not know the other nodes: {nodes}; {fix}"
