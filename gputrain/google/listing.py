"""Lists that may be partial: what is not in a partial list may well exist. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs

from gputrain.errors import TransientError
from gputrain.google.forms import mappings, texts

T = TypeVar("T")
PARTIAL_WARNINGS = frozenset({"UNREACHABLE", "PARTIAL_SUCCESS", "LIST_OVERHEAD_QUOTA_EXCEED"})
"""Warnings of a list answered with 200 that lacks something. Source: compute v1 protos, 2026-11-20."""


class PartialListError(TransientError):
    """A list is partial, so it does not say what is gone; ``items`` is what it shows."""

    kind = "incomplete_list"
    items: tuple[Any, ...] = ()


@attrs.frozen
class Listing(Generic[T]):
    """The items of a list that were read, and what of it could not be read."""

    items: tuple[T, ...]
    missing: tuple[str, ...] = ()
    """Places, or Google's codes for what is missing; empty: ``items`` is everything."""

    def require_complete(self, action: str) -> tuple[T, ...]:
        """The items, where they are all there are.

        Args:
            action: what for, in the error's words: ``"list the VMs"``.

        Raises:
            PartialListError: something is missing.
        """
        if self.missing:
            raise PartialListError(
                f"could not {action}: the list is not whole",
                why=f"left out: {', '.join(self.missing)}",
                fix="try again in a minute: what was not seen is left alone",
                items=self.items,
            )
        return self.items


@attrs.frozen(kw_only=True)
class Page(Generic[T]):
    """One page of a list, and the token of the next; no token at the end."""

    items: tuple[T, ...]
    missing: tuple[str, ...] = ()
    next_token: str = ""


def read_all(fetch: Callable[[str], Page[T]]) -> Listing[T]:
    """Read every page; ``fetch`` takes the token of a page, "" for the first.

    >>> read_all(lambda token: Page(items=(1, 2))).require_complete("count")
    (1, 2)
    """
    items: list[T] = []
    missing: list[str] = []
    token = ""
    while True:
        page = fetch(token)
        items += page.items
        missing += page.missing
        if page.next_token and page.next_token == token:  # it leads nowhere, and the rest is not known
            missing.append("pages after one that repeats itself")
        if page.next_token in ("", token):
            return Listing(tuple(items), tuple(dict.fromkeys(missing)))
        token = page.next_token


def page_of(body: Mapping[str, Any], items: str) -> Page[Mapping[str, Any]]:
    """A page of a JSON list, whose items are in the field ``items``; Google omits it where there are none."""
    return Page(items=mappings(body.get(items)), missing=missing_of(body), next_token=next_token_of(body))


def next_token_of(body: Mapping[str, Any]) -> str:
    """The token of the page after this one; empty at the end."""
    token = body.get("nextPageToken")
    return token if isinstance(token, str) else ""


def missing_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What a JSON list says that it lacks: places, or a warning of Compute Engine."""
    warnings = (*mappings([body.get("warning")]), *mappings(body.get("warnings")))
    codes = [code for one in warnings if (code := str(one.get("code"))) in PARTIAL_WARNINGS]
    places = (*texts(body.get("unreachable")), *texts(body.get("unreachables")))
    return tuple(dict.fromkeys([*(place.rpartition("/")[2] for place in places), *codes]))
