"""What a type checker sees of the catalog: read by mypy, never run."""

from fractions import Fraction

from typing_extensions import assert_type

from gputrain import catalog
from gputrain.catalog import Gpu, Gpus, Machine, Price, ProvisioningModel, Quota, Service, Shape, Shapes

gpu = catalog.find("H100")
assert_type(gpu, Gpu)
assert_type(gpu.memory_gib, int)
assert_type(gpu.vertex_accelerator_type, str | None)
assert_type(catalog.gpus(), Gpus)
found = catalog.shapes("H100", 2, service="compute", provisioning_model=ProvisioningModel.SPOT)
assert_type(found, Shapes)
assert_type(found[0], Shape)
assert_type(found[0].gpu_count, int | Fraction)
assert_type(found[0].machine, Machine)
assert_type(found[0].sold_as(Service.VERTEX), tuple[ProvisioningModel, ...])
assert_type(catalog.counts("L4"), tuple[int | Fraction, ...])
assert_type(catalog.zones(found[0]), tuple[str, ...])
assert_type(catalog.price(found[0], "us-central1", "spot"), Price | None)
assert_type(catalog.quota("H100"), Quota | None)
gpu.memory_gib = 81  # type: ignore[misc]  # rows are frozen
catalog.Source(key="x", what="y")  # type: ignore[call-arg]  # fields are checked
