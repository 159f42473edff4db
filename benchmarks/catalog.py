"""A question to the catalog costs next to nothing once its tables are read."""

from collections.abc import Callable, Iterator

from measure import Measure, Spread, timed_s

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service

H100 = catalog.shapes("H100", 8)[0]
WARM: dict[str, Callable[[], object]] = {
    "find": lambda: catalog.find("nvidia-h100-80gb"),
    "shapes of a kind and count": lambda: catalog.shapes("H100", 2),
    "shapes with every filter": lambda: catalog.shapes(
        service=Service.COMPUTE,
        provisioning_model=ProvisioningModel.SPOT,
        region="us-central1",
        min_compute_capability="8.0",
        max_usd_h=40,
    ),
    "zones": lambda: catalog.zones(H100),
    "price": lambda: catalog.price(H100, "us-central1"),
    "all prices of a shape": lambda: catalog.prices(H100),
    "quota": lambda: catalog.quota("H100", ProvisioningModel.SPOT),
    "image_faults": lambda: catalog.image_faults("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", H100),
}


def measure() -> Iterator[Measure]:
    """One call of each, in this process."""
    for question, ask in WARM.items():
        ask()
        warm = Spread.of_times([timed_s(ask, times=40) for _ in range(5)], per=1e-3)
        yield warm.measure(f"{question} warm", target=1, unit="ms")
