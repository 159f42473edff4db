"""What Compute Engine has in which zone, of all zones in one list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from urllib.parse import quote

import attrs

from gputrain.gcp.api import Access
from gputrain.gcp.endpoints import Api
from gputrain.gcp.forms import Json, mapping, mappings, texts
from gputrain.gcp.listing import PARTIAL_WARNINGS, Page, read_all
from gputrain.gcp.lookups import SOON, WAIT_S
from gputrain.retry import retried

_ZONES = "zones/"
_EMPTY = "NO_RESULTS_ON_PAGE"


@attrs.frozen(kw_only=True, eq=False, slots=False)
class InZones:
    """A list over all zones: what is in each, and the zones whose part could not be read."""

    items: Mapping[str, tuple[Json, ...]]
    """By zone; a zone that was read and has nothing is there with nothing."""
    unread: frozenset[str]
    is_whole: bool

    @cached_property
    def _names(self) -> Mapping[str, frozenset[str]]:
        return {
            zone: frozenset(str(one.get("name")) for one in held)
            for zone, held in self.items.items()
            if self.is_whole and zone not in self.unread
        }

    def names(self, zone: str) -> frozenset[str] | None:
        """The names of what a zone has; None: unknown, for its part of the list is not there or not whole."""
        return self._names.get(zone)


def aggregated(
    access: Access, collection: str, *, fields: str, wanted: str = "", project: str = ""
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
        "fields": f"items/*/{collection}({fields}),items/*/warning/code,nextPageToken,unreachables",
    }
    unread: set[str] = set()

    def page(token: str) -> Page[tuple[str, tuple[Json, ...]]]:
        body = _get(access, f"{base}/aggregated/{collection}", {**params, "pageToken": token}, collection)
        found = []
        for scope, part in mapping(body.get("items")).items():
            zone, held = scope.removeprefix(_ZONES), mapping(part)
            if not _is_read(held, collection):
                unread.add(zone)
            found.append((zone, mappings(held.get(collection))))
        unread.update(one.rpartition("/")[2] for one in texts(body.get("unreachables")))
        left_out = () if found else ("the list has no items",)
        return Page(items=tuple(found), next_token=str(body.get("nextPageToken", "")), left_out=left_out)

    listing = read_all(page)
    items: dict[str, tuple[Json, ...]] = {}
    for zone, held in listing.items:
        items[zone] = (*items.get(zone, ()), *held)
    return InZones(items=items, unread=frozenset(unread), is_whole=listing.is_whole)


def _is_read(held: Json, collection: str) -> bool:
    """Whether a zone's part says what is there: by a list that can be read, or by saying that it is empty."""
    code = str(mapping(held.get("warning")).get("code"))
    listed = held.get(collection)
    if listed is None:
        return code == _EMPTY
    return code not in PARTIAL_WARNINGS and isinstance(listed, list) and len(mappings(listed)) == len(listed)


def _get(access: Access, url: str, params: Mapping[str, str], what: str) -> Json:
    sent = {name: value for name, value in params.items() if value}

    def call() -> Json:
        return access.rest_json("GET", url, action=f"list {what}", params=sent, timeout_s=WAIT_S)

    return mapping(retried(call, policy=SOON, sleep=access.sleep))
