"""The filter of a list of builds: terms ``status=...`` and ``tags=...`` with AND, OR and brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gputrain_emulator.errors import ApiError

_TERM = re.compile(r'\(|\)|AND|OR|(?:status|tags)="?[\w-]+"?')


def matching(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a build is one that the filter finds. Raises 400 for any other filter."""
    if not text.strip():
        return lambda _: True
    if re.sub(r"\s+", "", _TERM.sub("", text)):
        raise ApiError(400, f"Invalid filter: {text}")

    def matches(build: Mapping[str, Any]) -> bool:
        def holds(found: re.Match[str]) -> str:
            word = found.group()
            if word in ("(", ")"):
                return word
            if word in ("AND", "OR"):
                return f" {word.lower()} "
            field, value = word.split("=", 1)
            value = value.strip('"')
            return str(build["status"] == value if field == "status" else value in build.get("tags", ()))

        words = _TERM.sub(holds, text)
        return _truth(words.split())

    return matches


def _truth(words: list[str]) -> bool:
    text = " ".join(words)
    while "(" in text:
        inner = re.search(r"\(([^()]*)\)", text)
        if inner is None:
            raise ApiError(400, "Invalid filter: brackets")
        text = text[: inner.start()] + str(_flat(inner.group(1))) + text[inner.end() :]
    return _flat(text)


def _flat(text: str) -> bool:
    return any(all(word.strip() == "True" for word in part.split(" and ")) for part in text.split(" or "))
