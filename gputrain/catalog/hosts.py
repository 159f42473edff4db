"""Which N1 machines take how many GPUs: Compute Engine's limits, and the stricter counts of Vertex AI."""

from __future__ import annotations

import attrs

from gputrain.tables import Shown


@attrs.frozen(kw_only=True)
class Attachment(Shown):
    """The largest N1 machine that may carry a count of one GPU kind, on Compute Engine."""

    gpu: str
    gpu_count: int
    max_vcpus: int
    max_memory_gib: int
    source: str = "gpus"


# kind, GPUs, most vCPUs, most memory in GiB. P100 is gone, so its rows are not kept.
_ROWS = (
    ("T4", 1, 48, 312),
    ("T4", 2, 48, 312),
    ("T4", 4, 96, 624),
    ("V100", 1, 12, 78),
    ("V100", 2, 24, 156),
    ("V100", 4, 48, 312),
    ("V100", 8, 96, 624),
    ("P4", 1, 24, 156),
    ("P4", 2, 48, 312),
    ("P4", 4, 96, 624),
)

ATTACHMENTS = tuple(
    Attachment(gpu=gpu, gpu_count=count, max_vcpus=vcpus, max_memory_gib=memory)
    for gpu, count, vcpus, memory in _ROWS
)

# vCPUs of the N1 machine: GPU counts Vertex AI takes on it (source vertex-machines, medium: its blank cells
# were lost in the copy and the columns rebuilt from the limits). n1-highcpu starts at 16, n1-standard at 4.
_FOURS = {2: (1, 2, 4), 4: (1, 2, 4), 8: (1, 2, 4), 16: (1, 2, 4), 32: (2, 4), 64: (4,), 96: (4,)}
_EIGHTS = {2: (1, 2, 4, 8), 4: (1, 2, 4, 8), 8: (1, 2, 4, 8), 16: (2, 4, 8), 32: (4, 8), 64: (8,), 96: (8,)}
_VERTEX = {"T4": _FOURS, "P4": _FOURS, "V100": _EIGHTS}
_VERTEX_FIRST = {"standard": 4, "highmem": 2, "highcpu": 16}

VCPUS_PER_GPU = 8
"""Host size chosen for an attached GPU when no machine type is asked for: n1-standard with 8 vCPUs a GPU.

Our choice: enough processes to feed the GPU, within every limit of both services.
"""


def default_host(count: int) -> str:
    """The N1 machine type that carries a count of GPUs when none is asked for."""
    return f"n1-standard-{count * VCPUS_PER_GPU}"


def vertex_counts(gpu: str, machine_type: str) -> tuple[int, ...]:
    """The GPU counts that Vertex AI takes on an N1 machine.

    >>> vertex_counts("T4", "n1-standard-32")
    (2, 4)
    """
    _, series, vcpus = machine_type.split("-")
    if int(vcpus) < _VERTEX_FIRST[series]:
        return ()
    return _VERTEX.get(gpu, {}).get(int(vcpus), ())
