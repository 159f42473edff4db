"""Lists that know whether they are whole: what is not in a partial one may well be there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NoReturn, TypeVar

import attrs

from gputrain.errors import TransientError
from gputrain.gcp.forms import mappings, texts

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
PARTIAL_WARNINGS = frozenset({"UNREACHABLE", "PARTIAL_SUCCESS", "LIST_OVERHEAD_QUOTA_EXCEED"})
"""Warnings of a list answered with 200 that lacks something. Source: compute v1 protos, 2026-11-20."""


class PartialListError(TransientError):
    """A list is not whole, so it does not say what is gone; ``seen`` is what it shows."""

    kind = "incomplete_list"
    seen: tuple[Any, ...] = ()


@attrs.frozen
class Listing(Generic[T_co]):
    """All pages of a list: a `WholeListing` or a `PartialListing`.

    What was seen is ``seen``; what there is, is ``whole``, which a partial one does not tell. That something
    is gone is told by ``whole`` and ``lacks`` alone: a listing is neither true nor false, and has no length.
    """

    _items: tuple[T_co, ...]

    @property
    def seen(self) -> tuple[T_co, ...]:
        """What was seen; there may be more, so it proves no absence."""
        return self._items

    @property
    def is_whole(self) -> bool:
        """Whether everything that there is was seen."""
        return isinstance(self, WholeListing)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is missing: places, or Google's words for it."""
        return ()

    def find(self, is_it: Callable[[T_co], bool]) -> T_co | None:
        """The first such item that was seen. None proves nothing."""
        return next(filter(is_it, self._items), None)

    def lacks(self, is_it: Callable[[T_co], bool]) -> bool:
        """Whether there certainly is no such item: never by a partial listing.

        >>> whole, part = listing_of([1]), listing_of([1], ["us-east1"])
        >>> whole.lacks(lambda one: one > 2), part.lacks(lambda one: one > 2)
        (True, False)
        """
        return self.is_whole and self.find(is_it) is None

    def whole(self, action: str) -> tuple[T_co, ...]:
        """Everything that there is.

        Args:
            action: what for, in the error's words: ``"list the VMs"``.

        Raises:
            PartialListError: that is not known.
        """
        raise NotImplementedError

    def map(self, change: Callable[[T_co], U]) -> Listing[U]:
        """The same listing of other values, one for each item."""
        return attrs.evolve(self, items=tuple(map(change, self._items)))  # type: ignore[arg-type,return-value]

    def __bool__(self) -> NoReturn:
        raise TypeError("a listing may be partial: .seen was seen, only .whole() is all there is")


@attrs.frozen
class WholeListing(Listing[T_co]):
    """Everything that there is: what is not among the items is not there."""

    def whole(self, action: str) -> tuple[T_co, ...]:  # noqa: ARG002
        return self._items


@attrs.frozen
class PartialListing(Listing[T_co]):
    """What was seen of a list that could not be read to its end."""

    left_out: tuple[str, ...]

    def whole(self, action: str) -> NoReturn:
        raise PartialListError(
            f"could not {action}: the list is not whole",
            why=f"left out: {', '.join(self.left_out)}",
            fix="try again in a minute: what was not seen is left alone",
            seen=self._items,
        )


def listing_of(items: Iterable[T], left_out: Iterable[str] = ()) -> Listing[T]:
    """The listing of what was seen, whole where nothing was left out."""
    missing = tuple(dict.fromkeys(left_out))
    return PartialListing(tuple(items), missing) if missing else WholeListing(tuple(items))


@attrs.frozen(kw_only=True)
class Page(Generic[T]):
    """One page: its items, the token of the next (empty at the end), and what was left out."""

    items: tuple[T, ...]
    next_token: str = ""
    left_out: tuple[str, ...] = ()


def read_all(fetch: Callable[[str], Page[T]]) -> Listing[T]:
    """Read every page; ``fetch`` takes the token of a page and is empty for the first.

    >>> read_all(lambda token: Page(items=(1, 2))).whole("count")
    (1, 2)
    """
    items: list[T] = []
    left_out: list[str] = []
    token, seen = "", {""}
    while True:
        page = fetch(token)
        items += page.items
        left_out += page.left_out
        token = page.next_token
        if not token:
            return listing_of(items, left_out)
        if token in seen:
            return listing_of(items, (*left_out, "the list repeats itself"))
        seen.add(token)


def page_of(body: Mapping[str, Any], items: str) -> Page[Mapping[str, Any]]:
    """A page of a JSON list; what cannot be read in it counts as left out.

    Args:
        body: the answer.
        items: the field that holds the items; Google leaves it out where there are none.
    """
    listed, token = body.get(items, []), body.get("nextPageToken", "")
    found = tuple(one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()
    unread = not isinstance(listed, list) or len(found) < len(listed) or not isinstance(token, str)
    return Page(
        items=found,
        next_token=token if isinstance(token, str) else "",
        left_out=(*left_out_of(body), *(["a part that cannot be read"] if unread else ())),
    )


def left_out_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What a JSON list says that it lacks: places, or a warning of Compute Engine."""
    one, many = body.get("warning"), body.get("warnings")
    warnings = mappings([one, *(many if isinstance(many, list) else ())])
    codes = [str(found.get("code")) for found in warnings if found.get("code") in PARTIAL_WARNINGS]
    places = (*texts(body.get("unreachable")), *texts(body.get("unreachables")))
    return tuple(dict.fromkeys([*(place.rpartition("/")[2] for place in places), *codes]))
