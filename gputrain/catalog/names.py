"""From any name a GPU goes by to its row; and the cards people ask for that Google Cloud does not sell.

Memory and architecture of those: NVIDIA and AMD datasheets, general knowledge, not re-read (2026-11-20);
that none is sold: docs.cloud.google.com/compute/docs/gpus, 2026-04-14.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache

from gputrain.errors import UnknownGpuError

from . import load
from .models import Gpu, Gpus, Lifecycle, NotSold, Stage

GPUS = Gpus(
    Gpu(lifecycle=Lifecycle(**load.cells(Lifecycle, row)), **load.cells(Gpu, row))
    for row in load.rows("gpus")
)
BY_KIND = {gpu.kind: gpu for gpu in GPUS}
NOT_SOLD = tuple(NotSold(**load.cells(NotSold, row)) for row in load.rows("not_sold"))

_SOLD = tuple(gpu.kind for gpu in GPUS if gpu.lifecycle.stage is not Stage.GONE)
_CONSUMER = ("geforce", "rtx", "gtx", "titan", "quadro")
"""A name with one of these that no row holds is still a consumer or workstation card."""
_MAKERS = ("nvidia", "amd", "instinct", "geforce", "tesla", "super", "laptopgpu", "generation")
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
    kind = name if name in BY_KIND else _known(name)
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
    bare = _strip(asked, *_MAKERS)
    for card in NOT_SOLD:
        known = plain(card.name)
        names = (known, _strip(known, "rtx", "gtx", "quadro"), _strip(known, "quadrortx"))
        if bare in names or (card.memory_gib and bare == f"{known}{card.memory_gib}gb"):
            return card
    if any(word in asked for word in _CONSUMER):
        shown = "".join(character for character in name[:60] if character.isprintable())
        return NotSold(name=shown.strip(), nearest=("L4", "T4", "A100-40GB"))
    return None


def kind_of(name: str) -> str:
    """The one word for a GPU, whether Google Cloud sells it or not; what no table knows is its own."""
    kind = _known(name[:LONGEST_NAME])
    card = None if kind else not_sold(name)
    return kind or (card.name if card else name.strip())


def meant_by(text: str) -> str:
    """``H100:8`` for what other programs write so: ``h100x8``, ``8xH100``, ``8 H100``; empty for all else."""
    for form in _COUNTED:
        found = form.fullmatch(text[:LONGEST_NAME].strip())
        kind = _by_name().get(plain(found["name"])) if found else None
        if found and kind:
            return f"{kind}:{found['count']}"
    return ""


def plain(name: str) -> str:
    """A name without case and separators, the form in which names are compared."""
    return "".join(character for character in name.casefold() if character.isalnum())


def _known(name: str) -> str | None:
    """The kind of a name, also of one that Google does not use: ``NVIDIA_TESLA_L4`` is an L4."""
    names = _by_name()
    return names.get(plain(name)) or names.get("".join(_model_words(name)))


def _model_words(name: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", name.casefold())
    return [one for one in words if one not in ("nvidia", "google", "tesla", "gpu", "gpus", "accelerator")]


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
    any_sold = f"take one of {', '.join(_SOLD)}"
    if not isinstance(name, str) or not plain(name[:LONGEST_NAME]):
        what, why = f"{repr(name)[:60]} is not the name of a GPU", "it is text such as 'H100' or 'L4'"
        return UnknownGpuError(what, why=why, fix=any_sold)
    shown = name.strip()[:60]
    card = not_sold(name)
    if card is not None:
        return UnknownGpuError(
            f"{card.name} is not sold on Google Cloud{' yet' if card.announced else ''}",
            why=_why_not_sold(card),
            fix="run on a machine of your own that has it with the Local backend, "
            f"or ask for the nearest that is sold: {' or '.join(card.nearest)}",
            nearest=card.nearest,
        )
    if plain(shown).startswith("tpu"):
        why = "gputrain launches PyTorch over NCCL, which needs NVIDIA GPUs"
        return UnknownGpuError(f"{shown!r} is not a GPU", why=why, fix=any_sold)
    if plain(shown) in ("none", "cpu"):
        fix = "leave gpu out: on Local, ranks run on the CPUs of this machine"
        return UnknownGpuError(f"{shown!r} is not a GPU", fix=fix)
    meant = meant_by(name)
    nearest = (meant.partition(":")[0],) if meant else _nearest(name)
    return UnknownGpuError(
        f"no GPU goes by {shown!r}",
        why=f"the nearest: {', '.join(nearest)}" if nearest else "it is like no name the catalog knows",
        fix=f"write {meant or nearest[0]!r}" if nearest else any_sold,
        nearest=nearest,
    )


def _why_not_sold(card: NotSold) -> str:
    if card.announced:
        return f"Google has announced {card.announced} machines, and published neither sizes nor prices"
    if card.memory_gib is None:
        return "Google Cloud sells NVIDIA's data center GPUs, no consumer or workstation cards"
    what = f"it is {card.maker}'s {card.architecture} card with {card.memory_gib} GiB"
    return f"{what}; Google Cloud sells {', '.join(_SOLD)}"


def _nearest(name: str) -> tuple[str, ...]:
    """Kinds whose names look most like the one asked for, at most three."""
    names = _by_name()
    asked = plain(name[:60])
    if asked in _NO_NAMES:
        return ()
    words = _model_words(name[:60])
    parts = ["".join(words[at : at + n]) for n in (2, 1) for at in range(len(words))]
    if model := next((one for one in parts if one in names), ""):  # no other model comes near
        names = {one: kind for one, kind in names.items() if model in one}
    alike = get_close_matches(asked, names, n=6, cutoff=0.5) or [model] * bool(model)
    alike += [known for known in names if len(known) > 1 and asked.startswith(known) and known not in alike]
    return tuple(dict.fromkeys(names[one] for one in alike if names[one] in _SOLD))[:3]
