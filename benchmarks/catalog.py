"""A cold question to the catalog costs little more than importing attrs; a warm one costs next to nothing."""

import tempfile
from collections.abc import Callable, Iterator

from measure import Measure, Spread, alternated, python_s, timed_s

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service, load

ATTRS = "import attrs"
COLD = {
    "find('H100')": "import gputrain.catalog; gputrain.catalog.find('H100')",
    "shapes('H100', 2)": "import gputrain.catalog; gputrain.catalog.shapes('H100', 2)",
}
H100 = catalog.shapes("H100", 8)[0]
WARM: dict[str, Callable[[], object]] = {
    "find": lambda: catalog.find("nvidia-h100-80gb"),
    "shapes of a kind and count": lambda: catalog.shapes("H100", 2),
    "shapes with every filter": lambda: catalog.shapes(
        service=Service.COMPUTE,
        provisioning_model=ProvisioningModel.SPOT,
        region="us-central1",
        min_gpu_memory_gib=40,
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
    """Cold: whole processes, interleaved, with byte code at hand as after an installation. Warm: one call."""
    codes = [ATTRS, *COLD.values()]
    took = alternated({code: lambda code=code: python_s(code) for code in codes}, rounds=25, warm_up=2)
    for question, code in COLD.items():
        yield took.ratio(code, ATTRS).measure(f"{question} cold / {ATTRS}", target=1.8)
    what = "a user's own tables, read and checked"
    yield Spread.of_times(_user_file_s(), per=1e-3).measure(what, target=5, unit="ms")
    for question, ask in WARM.items():
        ask()
        warm = Spread.of_times([timed_s(ask, times=40) for _ in range(5)], per=1e-3)
        yield warm.measure(f"{question} warm", target=1, unit="ms")


def _user_file_s() -> list[float]:
    """Seconds to read a file as large as the tables built in."""
    kept = tuple(row for row in load.built_in("places") if row[0] in load.LISTS)
    own = load.UserFile(read_on="2026-11-21", sources=(), places=kept, prices=load.built_in("prices"))
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        file.write(load.written(own))
        file.flush()
        return [timed_s(lambda: load.sound(file.name), times=10) for _ in range(5)]
