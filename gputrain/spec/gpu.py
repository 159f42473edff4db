"""``gpu="H100:2"``: a GPU and a count per node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import attrs

from gputrain.catalog.names import kind_of, meant_by

KIND = re.compile(r"[A-Za-z][A-Za-z0-9 ._()/+-]{0,99}")
_COUNT = re.compile(r"[0-9]{1,4}\.?|[0-9]{0,4}\.[0-9]{1,9}|[0-9]{1,4}/0{0,3}[1-9][0-9]{0,3}")
"""`Fraction` alone takes hours over ``1e99999999``, and a record may come from anybody."""


@attrs.frozen
class GpuRequest:
    """GPUs of each node.

    ``kind`` is the GPU's name (``"H100"``, ``"RTX 4090"``), or None where only a count was given, which means
    the GPUs of this machine. ``count`` is a whole number, or a fraction where a machine type has a part of a
    GPU (``"RTX-PRO-6000:1/2"``).
    """

    kind: str | None
    count: int | Fraction

    def __str__(self) -> str:
        return f"{self.kind}:{self.count}" if self.kind else str(self.count)


def parse_gpu(value: object) -> GpuRequest:
    """One request: ``"H100:2"``, ``"nvidia-h100-80gb:2"``, ``"L4"`` (one of them), ``2`` or ``"2"``.

    Backends decide whether they have such a GPU.

    Raises:
        ValueError: the form or the count is wrong.
    """
    if isinstance(value, GpuRequest):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return GpuRequest(None, _count(str(value) if abs(value) < 1 << 60 else "so many"))
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a GPU is text such as 'H100:2', or a count for this machine")
    name, colon, count = value.strip().rpartition(":")
    if not colon:
        name, count = ("", value.strip()) if value.strip().isdecimal() else (value.strip(), "1")
    if not name:
        return GpuRequest(None, _count(count))
    if not KIND.fullmatch(name):
        meant = meant_by(name)
        raise ValueError(f"{name[:40]!r} is not the name of a GPU{meant and f'; write {meant!r}'}")
    return GpuRequest(kind_of(name), _count(count))


def parse_gpus(value: object) -> tuple[GpuRequest, ...]:
    """One request, or a list of them in order of preference; errors as `parse_gpu`."""
    if value is None:
        return ()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(parse_gpu(one) for one in value)
    return (parse_gpu(value),)


def _count(text: str) -> int | Fraction:
    if not _COUNT.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is not a count of GPUs")
    count = Fraction(text.strip())
    if count <= 0 or (count.denominator != 1 and count > 1) or count > 1024:
        raise ValueError(f"no machine has {text.strip()} GPUs")
    return int(count) if count.denominator == 1 else count
