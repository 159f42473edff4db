"""What can be asked for: a kind, a count, and the machine that carries it."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import attrs

from gputrain.errors import NoFitError
from gputrain.tables import Shown, Table

from . import machine_types
from .families import ProvisioningModel, Service, Stage
from .gpu import BY_KIND, GPUS, Gpu
from .machine_types import Machine, machine, n1_hosts, with_gpu
from .names import find


@attrs.frozen(kw_only=True)
class Shape(Shown):
    """``gpu_count`` GPUs of one kind on one machine: what one node is made of."""

    gpu: Gpu = attrs.field(repr=lambda gpu: gpu.kind)
    gpu_count: int | Fraction
    machine: Machine = attrs.field(repr=lambda machine: machine.machine_type)

    @property
    def machine_type(self) -> str:
        """Google's name of the machine."""
        return self.machine.machine_type

    @property
    def is_attached(self) -> bool:
        """Whether the GPUs are attached to an N1 host (``guestAccelerators``) rather than built in."""
        return self.machine.gpu is None

    @property
    def gpu_memory_gib(self) -> float:
        """GPU memory of the whole node."""
        return float(self.gpu.memory_gib * self.gpu_count)

    @property
    def api_gpu_count(self) -> int:
        """The count that APIs take and quotas are charged with: a part of a GPU counts as 1.

        Source: live-quotas, 2026-11-20.
        """
        return max(1, int(self.gpu_count))

    @property
    def name(self) -> str:
        """How a person writes it, such as ``H100:2 on a3-highgpu-2g``."""
        return f"{self.gpu.kind}:{self.gpu_count} on {self.machine_type}"

    def sold_as(self, service: Service) -> tuple[ProvisioningModel, ...]:
        """The provisioning models one service sells it under; empty where it does not offer it.

        Vertex AI takes fewer counts of attached GPUs on an N1 machine than Compute Engine does.
        """
        if self.gpu.lifecycle.stage is Stage.GONE:
            return ()
        taken = machine_types.vertex_counts(self.gpu.kind, self.machine_type) if self.is_attached else ()
        if self.is_attached and Service(service) is Service.VERTEX and self.gpu_count not in taken:
            return ()
        return self.machine.sold_as(service)


class Shapes(Shown, tuple[Shape, ...]):
    """Shapes, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        sizes = ("GPU", "count", "GPU GiB", "machine type", "vCPUs", "GiB")
        columns = (*sizes, "on Compute Engine", "on Vertex AI")
        rows = (
            (s.gpu.kind, s.gpu_count, f"{s.gpu_memory_gib:g}", s.machine_type, s.machine.vcpus,
             f"{s.machine.memory_gib:g}", s.sold_as(Service.COMPUTE), s.sold_as(Service.VERTEX))
            for s in self
        )  # fmt: skip
        right = ("count", "GPU GiB", "vCPUs", "GiB")
        return Table(title="Shapes on Google Cloud", columns=columns, rows=rows, right=right)


def carrying(gpu: str | None, count: object = None, machine_type: str | None = None) -> tuple[Shape, ...]:
    """The shapes that carry a GPU kind and a count, exactly; all of them when nothing is asked.

    Raises:
        UnknownGpuError, NoFitError: as of `gputrain.catalog.shapes`.
    """
    found = _of_all(machine_type) if gpu is None else _of_kind(find(gpu).kind, machine_type)
    if count is not None:
        found = tuple(shape for shape in found if shape.gpu_count == count)
    if gpu is not None and not found:
        raise _no_fit(find(gpu), count, machine_type)
    return found


def counts(gpu: str) -> tuple[int | Fraction, ...]:
    """The counts of one GPU kind that a single machine can carry, ascending; empty for one that is gone.

    >>> counts("T4")
    (1, 2, 4)
    """
    return tuple(dict.fromkeys(shape.gpu_count for shape in _of_kind(find(gpu).kind, None)))


@lru_cache(maxsize=512)  # bounded: machine_type is whatever the caller wrote
def _of_kind(kind: str, machine_type: str | None) -> tuple[Shape, ...]:
    gpu = BY_KIND[kind]
    if gpu.lifecycle.stage is Stage.GONE:
        return ()
    found = _built_in if with_gpu(kind) else _attached  # no GPU is sold both ways
    return tuple(sorted(found(gpu, machine_type), key=lambda shape: shape.gpu_count))


def _built_in(gpu: Gpu, machine_type: str | None) -> list[Shape]:
    found = (one for one in with_gpu(gpu.kind) if machine_type in (None, one.machine_type))
    return [Shape(gpu=gpu, gpu_count=one.gpu_count, machine=one) for one in found]


def _attached(gpu: Gpu, machine_type: str | None) -> list[Shape]:
    return [
        Shape(gpu=gpu, gpu_count=limit.gpu_count, machine=host)
        for limit in machine_types.ATTACHMENTS
        if limit.gpu == gpu.kind
        for host in n1_hosts()
        if host.machine_type == (machine_type or machine_types.default_host(limit.gpu_count))
        and host.vcpus <= limit.max_vcpus
        and host.memory_gib <= limit.max_memory_gib
    ]


def _of_all(machine_type: str | None) -> tuple[Shape, ...]:
    built_in = machine(machine_type).gpu if machine_type else None  # raises for a name nobody knows
    kinds = (built_in,) if built_in else tuple(gpu.kind for gpu in GPUS)
    every = (shape for kind in kinds for shape in _of_kind(kind, machine_type))
    return tuple(sorted(every, key=lambda shape: shape.gpu_count))


def _no_fit(gpu: Gpu, count: object, machine_type: str | None) -> NoFitError:
    life = gpu.lifecycle
    if life.stage is Stage.GONE:
        fix = f"take {' or '.join(gpu.instead)}"
        return NoFitError(f"{gpu.kind} is gone from Google Cloud", why=f"{life.note} {life.ends}", fix=fix)
    if machine_type is not None:
        machine(machine_type)
    exist = tuple(dict.fromkeys(shape.gpu_count for shape in _of_kind(gpu.kind, machine_type)))
    where = f"on {machine_type}" if machine_type else "on one machine"
    if not exist:
        types = dict.fromkeys(shape.machine_type for shape in _of_kind(gpu.kind, None))
        return NoFitError(
            f"{machine_type} carries no {gpu.kind}",
            why=f"{gpu.kind} is carried by {', '.join(types)}",
            fix="take one of those machine types, or leave machine_type out",
            counts=counts(gpu.kind),
        )
    return NoFitError(
        f"there is no {gpu.kind}:{count} {where}",
        why=f"counts that exist {where}: {', '.join(map(str, exist))}",
        fix=_fix_for(gpu, count, exist),
        counts=exist,
    )


def _fix_for(gpu: Gpu, count: object, exist: tuple[int | Fraction, ...]) -> str:
    nodes = ""
    if isinstance(count, int):
        whole = [one for one in exist if isinstance(one, int) and 0 < one < count and count % one == 0]
        if whole:
            nodes = (
                f", or gpu='{gpu.kind}:{whole[-1]}' with num_nodes={count // whole[-1]} for {count} in all"
            )
    nearest = min(exist, key=lambda one: abs(one - count)) if isinstance(count, int | float) else exist[0]
    return f"ask for gpu='{gpu.kind}:{nearest}'{nodes}"
