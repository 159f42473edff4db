"""Patterns that others send. Google's engine takes linear time, Python's does not: the worst are refused."""

from __future__ import annotations

import re

_REPEATED = re.compile(r"[*+]|\{[0-9,]+\}")
_MOST_REPEATS = 8


def compiled(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression; raises ValueError for what is none, or could keep the emulator busy for ever."""
    if len(_REPEATED.findall(text)) > _MOST_REPEATS or re.search(r"\)[*+{]", text):
        raise ValueError("too many repetitions for this emulator")
    try:
        return re.compile(text, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None


def is_like(text: str, wanted: str) -> bool:
    """Whether ``text`` is ``wanted``, in which each ``*`` stands for anything."""
    first, *rest = wanted.split("*")
    if not rest:
        return text == wanted
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
