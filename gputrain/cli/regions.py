"""Names of regions, where nothing but the catalog is asked of them."""

from __future__ import annotations

from difflib import get_close_matches

from gputrain import catalog
from gputrain.fields import refused


def check(region: str) -> None:
    """Refuse a region that the catalog has never heard of, and name the one that is spelt most like it.

    Raises:
        SpecError: it knows no machine there.
    """
    known = {
        one
        for shape in catalog.shapes()
        for service in catalog.Service
        for one in catalog.regions(shape, service)
    }
    if region not in known:
        near = get_close_matches(region, sorted(known), n=1, cutoff=0.0)[0]
        raise refused("region", region, "a region that the catalog knows", f"region={near!r}")
