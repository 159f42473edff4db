"""Where a shape can be had, by the dated tables.

A GPU seen in a zone does not put every machine with that GPU there: a3-megagpu-8g exists in 13 regions,
while its GPU is listed in 20. So a machine's own list comes first, and its GPU's zones count
only in the regions that list the machine.
"""

from __future__ import annotations

from functools import cache

from .families import Service
from .load import Source, rows, source
from .shape import Shape


def regions(shape: Shape, service: Service | str = Service.COMPUTE) -> tuple[str, ...]:
    """The regions where a service lists a shape, sorted; empty where it does not offer it.

    Presence, not capacity. For Vertex AI these are the regions of its accelerator table that train;
    one it lists there, asia-south2, is missing from the feature table of the same page.

    Source: machine-regions (2026-08-17), accelerator-regions (2026-08-10), vertex-regions (2026).

    >>> from gputrain.catalog import shapes
    >>> len(regions(shapes("H100-MEGA", 8)[0]))
    13
    """
    service = Service(service)
    if not shape.sold_as(service):
        return ()
    if service is Service.VERTEX:
        return _places("vertex-regions", shape.gpu.kind)
    if shape.is_attached:
        return _places("gpu-regions", shape.gpu.kind)
    return _places("machine-regions", shape.machine_type)


def zones(shape: Shape, service: Service | str = Service.COMPUTE) -> tuple[str, ...]:
    """The zones known to have a shape, sorted.

    A region of `regions` without a zone here has some that nobody has noted.

    Vertex AI takes no zone, so its answer is empty: only a reservation pins a job to one.

    Source: zones (mid-2026), audit (2026-06-23) for the newest GPUs.

    >>> from gputrain.catalog import shapes
    >>> zones(shapes("GB200", 4)[0])
    ('us-central1-a', 'us-central1-b')
    """
    if Service(service) is Service.VERTEX:
        return ()
    own = _places("machine-zones", shape.machine_type)
    listed = set(regions(shape))
    return tuple(zone for zone in own or _places("gpu-zones", shape.gpu.kind) if region_of(zone) in listed)


def listed_in(shape: Shape, service: Service | str = Service.COMPUTE) -> Source:
    """The document, with its day, that the places of a shape were read in.

    >>> from gputrain.catalog import shapes
    >>> listed_in(shapes("H100", 8)[0], Service.VERTEX).key
    'vertex-regions'
    """
    if Service(service) is Service.VERTEX:
        return source(_told_by().get(("vertex-regions", shape.gpu.kind), "vertex-regions"))
    zones_of = (("machine-zones", shape.machine_type), ("gpu-zones", shape.gpu.kind))
    return source(next((key for table in zones_of if (key := _told_by().get(table))), "machine-regions"))


def not_for_training(shape: Shape) -> tuple[str, ...]:
    """Regions where Vertex AI has the GPU for other work but does not train on it."""
    return _places("vertex-not-training", shape.gpu.kind)


@cache
def region_of(place: str) -> str:
    """The region a zone lies in; a region, whose name ends in a digit as no zone's does, is its own.

    >>> region_of("us-central1-a"), region_of("us-central1")
    ('us-central1', 'us-central1')
    """
    return place if place[-1:].isdigit() else place.rpartition("-")[0]


def likely_region(name: str) -> str:
    """The region that is spelt most like a name; empty where the name is one that the catalog knows.

    >>> likely_region("us-centrl1"), likely_region("us-central1")
    ('us-central1', '')
    """
    import difflib

    known = {region_of(place) for places in _index().values() for place in places}
    return "" if name in known else difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.0)[0]


def _places(table: str, name: str) -> tuple[str, ...]:
    return _index().get((table, name), ())


@cache
def _told_by() -> dict[tuple[str, str], str]:
    return {
        (table, name): key for table, names, key, _places_of in rows("places") for name in names.split(",")
    }


@cache
def _index() -> dict[tuple[str, str], tuple[str, ...]]:
    return {
        (table, name): tuple(sorted(places.split()))
        for table, names, _source, places in rows("places")
        for name in names.split(",")
    }
