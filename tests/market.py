"""What the clouds sell, as supplies: the whole catalog, with its own prices."""

from functools import cache

from gputrain import catalog
from gputrain.catalog import Service
from gputrain.planning import Offer, Supply


def _price_of(shape, service):
    def price_of(place, model):
        region = catalog.region_of(place) if service is Service.COMPUTE else place
        return catalog.price(shape, region, model, service=service)

    return price_of


@cache
def supply(service):
    """Every shape that a service sells, anywhere."""
    places = (
        catalog.zones
        if service is Service.COMPUTE
        else (lambda shape: catalog.regions(shape, Service.VERTEX))
    )
    offers = [
        Offer(
            gpu=shape.gpu.kind,
            gpu_count=shape.gpu_count,
            machine_type=shape.machine_type,
            provisioning_models=shape.sold_as(service),
            places=tuple(places(shape)),
            price_of=_price_of(shape, service),
            region_of=catalog.region_of if service is Service.COMPUTE else str,
        )
        for shape in catalog.shapes()
        if shape.sold_as(service)
    ]
    return Supply(backend=service.value, offers=tuple(offers))
