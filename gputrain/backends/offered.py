"""What a backend has on offer, its functions behind the seam: planning asks them, and knows no backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from gputrain.backends import guard
from gputrain.backends.base import Backend
from gputrain.planning import Offer, Supply

T = TypeVar("T")


def guarded(backend: Backend, supply: Supply) -> Supply:
    """The same supply; what a function of somebody else's raises names the backend, as of its own calls."""

    def asking(name: str, ask: Callable[..., T]) -> Callable[..., T]:
        def asked(*given: object) -> T:
            with guard.of(backend, backend.name, f"ask {name}(...)"):
                return ask(*given)

        return asked

    def of_offer(one: Offer) -> Offer:
        return attrs.evolve(
            one,
            price_of=asking("price_of", one.price_of),
            region_of=asking("region_of", one.region_of),
            network_of=asking("network_of", one.network_of),
            refuses=asking("refuses", one.refuses),
        )

    if guard.is_ours(backend):
        return supply
    return attrs.evolve(
        supply,
        offers=tuple(map(of_offer, supply.offers)),
        limits=tuple(attrs.evolve(one, asks=asking("asks", one.asks)) for one in supply.limits),
        find_gpu=asking("find_gpu", supply.find_gpu),
    )
