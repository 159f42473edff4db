"""What each of several backends tells: one that cannot be asked hides no other, and is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gputrain.backends.base import Backend
from gputrain.concurrency import gather
from gputrain.errors import GputrainError

T = TypeVar("T")
log = logging.getLogger("gputrain")


def of_each(
    backends: Sequence[Backend], ask: Callable[[Backend], T], of: str
) -> tuple[list[T], tuple[str, ...]]:
    """What they tell, asked side by side, and as `left_out` those that could not be asked.

    Raises:
        GputrainError: as the first of them answers, where none could be asked.
    """
    refused: dict[str, Exception] = {}

    def answers(backend: Backend) -> list[T]:
        try:
            return [ask(backend)]
        except Exception as error:  # noqa: BLE001  # of whichever kind: it hides no other backend's answer
            refused[backend.name] = error
            return []

    told = [one for some in gather(answers, backends) for one in some]
    if refused and not told:
        raise refused[backends[0].name]
    return told, left_out(refused, of)


def left_out(refused: Mapping[str, Exception], of: str) -> tuple[str, ...]:
    """The backends that could not be asked, each with why; the log says of what they are left out."""
    told = tuple(f"{name}: {_reason(error)}" for name, error in refused.items())
    for one in told:
        log.warning("left out of the %s: %s", of, one)
    return told


def _reason(error: Exception) -> str:
    return error.what if isinstance(error, GputrainError) else f"{type(error).__name__}: {error}"
