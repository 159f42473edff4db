"""Cards people ask for that Google Cloud does not sell, and what comes nearest.

Memory and architecture: NVIDIA and AMD datasheets, general knowledge, not re-read (2026-11-20);
that none is sold: docs.cloud.google.com/compute/docs/gpus, 2026-04-14.
"""

from __future__ import annotations

import attrs

from gputrain.tables import Shown


@attrs.frozen(kw_only=True)
class NotSold(Shown):
    """A card that exists but cannot be had on Google Cloud.

    ``nearest`` holds kinds that are sold, the closest in memory and architecture first.
    """

    name: str
    maker: str = "NVIDIA"
    memory_gib: int | None = None
    architecture: str = ""
    nearest: tuple[str, ...]
    source: str = "gpus"


# name, memory in GiB, architecture, nearest kinds
_NVIDIA = (
    ("RTX 5090", 32, "Blackwell", ("RTX-PRO-6000", "A100-40GB", "L4")),
    ("RTX 5080", 16, "Blackwell", ("L4", "RTX-PRO-6000")),
    ("RTX 5070 Ti", 16, "Blackwell", ("L4", "T4")),
    ("RTX 5070", 12, "Blackwell", ("L4", "T4")),
    ("RTX 4090", 24, "Ada Lovelace", ("L4", "A100-40GB")),
    ("RTX 4080", 16, "Ada Lovelace", ("L4", "T4")),
    ("RTX 4070 Ti", 12, "Ada Lovelace", ("L4", "T4")),
    ("RTX 4070", 12, "Ada Lovelace", ("L4", "T4")),
    ("RTX 4060 Ti", 16, "Ada Lovelace", ("L4", "T4")),
    ("RTX 4060", 8, "Ada Lovelace", ("T4", "L4")),
    ("RTX 3090 Ti", 24, "Ampere", ("L4", "A100-40GB")),
    ("RTX 3090", 24, "Ampere", ("L4", "A100-40GB")),
    ("RTX 3080 Ti", 12, "Ampere", ("L4", "T4")),
    ("RTX 3080", 10, "Ampere", ("L4", "T4")),
    ("RTX 3070", 8, "Ampere", ("T4", "L4")),
    ("RTX 3060", 12, "Ampere", ("T4", "L4")),
    ("RTX 2080 Ti", 11, "Turing", ("T4", "L4")),
    ("RTX 2080", 8, "Turing", ("T4", "L4")),
    ("RTX 2070", 8, "Turing", ("T4", "L4")),
    ("GTX 1080 Ti", 11, "Pascal", ("T4", "L4")),
    ("GTX 1080", 8, "Pascal", ("T4", "L4")),
    ("Titan RTX", 24, "Turing", ("L4", "T4")),
    ("RTX 6000 Ada", 48, "Ada Lovelace", ("RTX-PRO-6000", "A100-40GB", "L4")),
    ("RTX A6000", 48, "Ampere", ("A100-40GB", "RTX-PRO-6000", "L4")),
    ("RTX A5000", 24, "Ampere", ("L4", "A100-40GB")),
    ("RTX A4000", 16, "Ampere", ("L4", "T4")),
    ("Quadro RTX 8000", 48, "Turing", ("A100-40GB", "RTX-PRO-6000")),
    ("Quadro RTX 6000", 24, "Turing", ("L4", "T4")),
    ("L40S", 48, "Ada Lovelace", ("RTX-PRO-6000", "A100-40GB", "L4")),
    ("L40", 48, "Ada Lovelace", ("RTX-PRO-6000", "A100-40GB", "L4")),
    ("A40", 48, "Ampere", ("A100-40GB", "RTX-PRO-6000")),
    ("A30", 24, "Ampere", ("A100-40GB", "L4")),
    ("A10G", 24, "Ampere", ("L4", "A100-40GB")),
    ("A10", 24, "Ampere", ("L4", "A100-40GB")),
    ("A16", 16, "Ampere", ("L4", "T4")),
    ("A2", 16, "Ampere", ("L4", "T4")),
    ("V100-32GB", 32, "Volta", ("A100-40GB", "V100")),
    ("H100-PCIE", 80, "Hopper", ("H100", "A100-80GB")),
    ("H100-NVL", 94, "Hopper", ("H100", "H200")),
    ("GH200", 96, "Hopper", ("H200", "GB200")),
    ("H800", 80, "Hopper", ("H100",)),
    ("H20", 96, "Hopper", ("H100", "H200")),
    ("A800", 80, "Ampere", ("A100-80GB",)),
)
_AMD = (
    ("MI350X", 288, "CDNA 4", ("B200",)),
    ("MI325X", 256, "CDNA 3", ("B200", "H200")),
    ("MI300X", 192, "CDNA 3", ("B200", "H200")),
    ("MI250X", 128, "CDNA 2", ("A100-80GB", "H100")),
)

NOT_SOLD = (
    *(NotSold(name=n, memory_gib=m, architecture=a, nearest=k) for n, m, a, k in _NVIDIA),
    *(NotSold(name=n, maker="AMD", memory_gib=m, architecture=a, nearest=k) for n, m, a, k in _AMD),
)

CONSUMER_WORDS = ("geforce", "rtx", "gtx", "titan", "quadro")
"""A name with one of these that no row holds is still a consumer or workstation card."""

ANY_CONSUMER_CARD = NotSold(name="", nearest=("L4", "T4", "A100-40GB"))
