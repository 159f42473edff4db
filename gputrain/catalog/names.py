"""From any name a GPU goes by to its row; and the cards people ask for that Google Cloud does not sell.

Memory and architecture of those: NVIDIA and AMD datasheets, general knowledge, not re-read (2026-11-20);
that none is sold: docs.cloud.google.com/compute/docs/gpus, 2026-04-14.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache

import attrs

from gputrain.errors import UnknownGpuError
from gputrain.tables import Shown

from .families import Stage
from .gpu import BY_KIND, GPUS, Gpu


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
    announced: str = ""
    """The machines that Google says it will come in; empty: none."""
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

_A5X = ("VR200", "Vera Rubin", "Rubin", "R200", "A5X")
_LARGEST = ("GB300", "GB200", "B200")

NOT_SOLD = (
    *(NotSold(name=n, memory_gib=m, architecture=a, nearest=k) for n, m, a, k in _NVIDIA),
    *(NotSold(name=n, maker="AMD", memory_gib=m, architecture=a, nearest=k) for n, m, a, k in _AMD),
    *(
        NotSold(name=n, architecture="Rubin", nearest=_LARGEST, announced="A5X", source="local-ssd")
        for n in _A5X
    ),
)
"""Google names A5X machines among those that bring local SSD, and tells no more of them. That they carry
NVIDIA's Vera Rubin is inferred."""

CONSUMER_WORDS = ("geforce", "rtx", "gtx", "titan", "quadro")
"""A name with one of these that no row holds is still a consumer or workstation card."""

ANY_CONSUMER_CARD = NotSold(name="", nearest=("L4", "T4", "A100-40GB"))


_COUNTED = (
    re.compile(r"(?P<name>.+?)[\s*=,-]*[xX*=,\s][\s*=,-]*(?P<count>\d{1,2})"),
    re.compile(r"(?P<count>\d{1,2})\s*[xX*:\s]\s*(?P<name>.+)"),
)
_NO_NAMES = frozenset({"nvidia", "gpu", "cuda", "tesla", "none", "cpu"})
"""What is like many names, or means that there is no GPU; none is guessed."""

LONGEST_NAME = 100
"""A longer text is no name; nothing is done with it but to say so."""


def find(name: str) -> Gpu:
    """The GPU that goes by a name: ours, Compute Engine's, Vertex AI's, or what ``nvidia-smi`` prints.

    Case, spaces, hyphens and underscores do not matter. ``"A100"`` alone is the 40 GB one,
    as in Google's own ``nvidia-tesla-a100``; say ``"A100-80GB"`` for the other.

    Raises:
        UnknownGpuError: nothing sold goes by that name; ``nearest`` holds the kinds that come closest.

    Source: `gputrain.catalog.gpus`.

    >>> find("nvidia_h100_80gb").kind
    'H100'
    >>> find("A100").kind
    'A100-40GB'
    """
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise _unknown(name)
    kind = name if name in BY_KIND else _by_name().get(plain(name))
    if kind is None:
        raise _unknown(name)
    return BY_KIND[kind]


def not_sold(name: str) -> NotSold | None:
    """The card behind a name when it is a real one that Google Cloud does not sell, else None.

    >>> not_sold("GeForce RTX 4090").nearest
    ('L4', 'A100-40GB')
    """
    asked = plain(name[:LONGEST_NAME])
    if asked in _by_name():
        return None
    bare = _strip(asked, "nvidia", "amd", "instinct", "geforce", "tesla", "super", "laptopgpu", "generation")
    for card in NOT_SOLD:
        known = plain(card.name)
        if bare in (known, _strip(known, "rtx", "gtx", "quadro"), _strip(known, "quadrortx")):
            return card
        if card.memory_gib and bare == f"{known}{card.memory_gib}gb":
            return card
    if any(word in asked for word in CONSUMER_WORDS):
        shown = "".join(character for character in name[:60] if character.isprintable())
        return NotSold(name=shown.strip(), nearest=ANY_CONSUMER_CARD.nearest)
    return None


def kind_of(name: str) -> str:
    """The one word for a GPU, whether Google Cloud sells it or not; what no table knows is its own.

    >>> kind_of("nvidia-h100-80gb"), kind_of("NVIDIA GeForce RTX 4090"), kind_of("RTX4090"), kind_of("MI400X")
    ('H100', 'RTX 4090', 'RTX 4090', 'MI400X')
    """
    kind = _by_name().get(plain(name[:LONGEST_NAME]))
    card = None if kind else not_sold(name)
    return kind or (card.name if card else name.strip())


def plain(name: str) -> str:
    """A name without case and separators, the form in which names are compared."""
    return "".join(character for character in name.casefold() if character.isalnum())


@cache
def _by_name() -> dict[str, str]:
    names: dict[str, str] = {}
    for gpu in GPUS:
        for name in gpu.names:
            names.setdefault(plain(name), gpu.kind)
    return names


def _strip(name: str, *words: str) -> str:
    for word in words:
        name = name.replace(word, "")
    return name


def _unknown(name: object) -> UnknownGpuError:
    if not isinstance(name, str) or not plain(name[:LONGEST_NAME]):
        return UnknownGpuError(
            f"{repr(name)[:60]} is not the name of a GPU",
            why="a GPU is named by text such as 'H100', 'L4' or 'nvidia-h100-80gb'",
            fix=f"take one of {', '.join(_sold_kinds())}",
        )
    shown = name.strip()[:60]
    card = not_sold(name)
    if card is not None:
        return UnknownGpuError(
            f"{card.name} is not sold on Google Cloud{' yet' if card.announced else ''}",
            why=_why_not_sold(card),
            fix="run on a machine of your own that has it with the Local backend, Trainer(Local()), "
            f"or ask for the nearest that is sold: {' or '.join(card.nearest)}",
            nearest=card.nearest,
        )
    if plain(shown).startswith("tpu"):
        return UnknownGpuError(
            f"{shown!r} is not a GPU",
            why="gputrain launches PyTorch over NCCL, which needs NVIDIA GPUs",
            fix=f"take one of {', '.join(_sold_kinds())}",
        )
    if plain(shown) in ("none", "cpu"):
        return UnknownGpuError(
            f"{shown!r} is not a GPU", fix="leave gpu out: on Local, ranks run on the CPUs of this machine"
        )
    meant = meant_by(name)
    nearest = (meant.partition(":")[0],) if meant else _nearest(name)
    return UnknownGpuError(
        f"no GPU goes by {shown!r}",
        why=f"the nearest: {', '.join(nearest)}" if nearest else "it is like no name the catalog knows",
        fix=f"write {meant or nearest[0]!r}" if nearest else f"take one of {', '.join(_sold_kinds())}",
        nearest=nearest,
    )


def meant_by(text: str) -> str:
    """``H100:8`` for what other programs write so: ``h100x8``, ``8xH100``, ``8 H100``; empty for all else.

    >>> meant_by("h100x8"), meant_by("8 x nvidia-l4"), meant_by("H100"), meant_by("x8")
    ('H100:8', 'L4:8', '', '')
    """
    for form in _COUNTED:
        found = form.fullmatch(text[:LONGEST_NAME].strip())
        kind = _by_name().get(plain(found["name"])) if found else None
        if found and kind:
            return f"{kind}:{found['count']}"
    return ""


def _why_not_sold(card: NotSold) -> str:
    if card.announced:
        return f"Google has announced {card.announced} machines, and published neither sizes nor prices"
    if card.memory_gib is None:
        return "Google Cloud sells NVIDIA's data center GPUs, no consumer or workstation cards"
    return (
        f"it is {card.maker}'s {card.architecture} card with {card.memory_gib} GiB; "
        f"Google Cloud sells {', '.join(_sold_kinds())}"
    )


def _sold_kinds() -> tuple[str, ...]:
    return tuple(gpu.kind for gpu in GPUS if gpu.lifecycle.stage is not Stage.GONE)


def _nearest(name: str) -> tuple[str, ...]:
    """Kinds whose names look most like the one asked for, at most three."""
    names = _by_name()
    asked = plain(name[:60])
    if asked in _NO_NAMES:
        return ()
    alike = get_close_matches(asked, names, n=6, cutoff=0.5)
    alike += [known for known in names if len(known) > 1 and asked.startswith(known) and known not in alike]
    sold = _sold_kinds()
    return tuple(dict.fromkeys(names[one] for one in alike if names[one] in sold))[:3]
