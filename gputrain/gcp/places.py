"""What Compute Engine has in which zone, of all zones in one list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from urllib.parse import quote

import attrs

from gputrain.gcp.api import Access
from gputrain.gcp.endpoints import Api
from gputrain.gcp.forms import Json, mapping, mappings, texts
from gputrain.gcp.listing import PARTIAL_WARNINGS, Listing, Page, left_out_of, listing_of
from gputrain.retry import SOON, Policy

_ZONES = "zones/"
_EMPTY = "NO_RESULTS_ON_PAGE"
NO_ITEMS = "the list has no items"
"""Left out of a list without a word on any zone: Compute Engine names every zone, also the empty ones."""


@attrs.frozen(kw_only=True, eq=False, slots=False)
class InZones:
    """A list over all zones: what is in each, and the zones whose part could not be read."""

    items: Mapping[str, tuple[Json, ...]]
    """By zone; a zone that was read and has nothing is there with nothing."""
    unread: frozenset[str]
    broken: tuple[str, ...] = ()
    """What is wrong with the list itself: then no zone's part counts as read."""

    @cached_property
    def _names(self) -> Mapping[str, frozenset[str]]:
        return {
            zone: frozenset(str(one.get("name")) for one in held)
            for zone, held in self.items.items()
            if not self.broken and zone not in self.unread
        }

    def names(self, zone: str) -> frozenset[str] | None:
        """The names of what a zone has; None: unknown, for its part of the list is not there or not whole."""
        return self._names.get(zone)

    @cached_property
    def listing(self) -> Listing[Json]:
        """Everything that was seen, of all zones together."""
        return listing_of(
            (one for held in self.items.values() for one in held), (*sorted(self.unread), *self.broken)
        )


def aggregated(
    access: Access,
    collection: str,
    *,
    fields: str,
    wanted: str = "",
    project: str = "",
    policy: Policy = SOON,
) -> InZones:
    """All that a filter takes of a collection (``machineTypes``), by zone.

    Raises:
        AccessError, TransientError, ...: as Compute Engine answers.
    """
    base = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{quote(project or access.project, safe=':')}"
    params = {
        "filter": wanted,
        "maxResults": "500",
        "returnPartialSuccess": "true",  # one zone that is down must not hide the others
        "fields": f"items/*/{collection}({fields}),items/*/warning/code,"
        "nextPageToken,unreachables,warning/code",
    }
    unread: set[str] = set()
    url = f"{base}/aggregated/{collection}"
    listing = access.pages(
        url, action=f"list the {collection}", params=params, policy=policy,
        read=lambda _, body: _page(body, collection, unread),
    )  # fmt: skip
    items: dict[str, tuple[Json, ...]] = {}
    for zone, held in listing.seen:
        items[zone] = (*items.get(zone, ()), *held)
    return InZones(items=items, unread=frozenset(unread), broken=listing.left_out)


def _page(body: Json, collection: str, unread: set[str]) -> Page[tuple[str, tuple[Json, ...]]]:
    """What one page holds of each zone; the zones that it could not read are put with the others."""
    found = []
    for scope, part in mapping(body.get("items")).items():
        zone, held = scope.removeprefix(_ZONES), mapping(part)
        if not _is_read(held, collection):
            unread.add(zone)
        found.append((zone, mappings(held.get(collection))))
    silent = {place.rpartition("/")[2] for place in texts(body.get("unreachables"))}
    unread.update(silent)
    told = () if unread else left_out_of(body)
    token = body.get("nextPageToken", "")
    left_out = (*told, *(() if found or silent else (NO_ITEMS,)))
    return Page(items=tuple(found), next_token=token if isinstance(token, str) else "", left_out=left_out)


def _is_read(held: Json, collection: str) -> bool:
    """Whether a zone's part says what is there: by a list that can be read, or by saying that it is empty."""
    code = str(mapping(held.get("warning")).get("code"))
    listed = held.get(collection)
    if listed is None:
        return code == _EMPTY
    is_readable = isinstance(listed, list) and all(isinstance(one, dict) for one in listed)
    return is_readable and code not in PARTIAL_WARNINGS
