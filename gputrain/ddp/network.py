"""Whether several nodes of fast GPUs are about to talk over slow TCP, which NCCL does without a word."""

from __future__ import annotations

from typing import Mapping, Optional

_FAST = ("H100", "H200", "B200", "B300")
"""GPUs whose Google machines have GPUDirect networks (A3, A4, A4X).

Source: AI Hypercomputer documentation of the machine families, read 2026-11-20.
"""

_CHOSEN_BY = ("NCCL_NET", "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_IB_", "NCCL_CONF_FILE")
"""Variables that Google's network profiles set: gIB, TCPXO (FasTrak) and TCPX."""


def slow_network(gpu: str, nodes: int, env: Mapping[str, str]) -> Optional[str]:
    """What to tell the reader of the log when NCCL will fall back to TCP; None when all is well.

    Args:
        gpu: the GPU's name as torch tells it.
        nodes: how many machines the job has.

    Example:
        >>> slow_network("NVIDIA L4", 2, {}) is None
        True
    """
    has_fast_network = any(name in gpu for name in _FAST)
    if nodes < 2 or not has_fast_network or any(name.startswith(_CHOSEN_BY) for name in env):
        return None
    return (
        f"{nodes} nodes of {gpu}, but no NCCL network profile is set: gradients may travel over plain TCP, "
        "many times slower. Source the machine's profile before the command, such as "
        "/usr/local/gib/scripts/set_nccl_env.sh, and look at NCCL_DEBUG=INFO"
    )
