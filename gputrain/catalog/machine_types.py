"""Machine types: one row each, with GPUs built in, or attached (N1) within the limits of both services."""

from __future__ import annotations

from difflib import get_close_matches
from fractions import Fraction
from functools import cache

import attrs

from gputrain.errors import NoFitError
from gputrain.tables import Shown, Table

from .families import FAMILIES, TERMS, Family, ProvisioningModel, Service, Terms


@attrs.frozen(kw_only=True)
class Machine(Shown):
    """A machine type.

    ``gpu_count`` counts the GPUs built in: a whole number, a `Fraction` where the machine carries a part
    of one, 0 for an N1 host that GPUs are attached to. ``local_ssd_gib`` comes with the machine.
    """

    machine_type: str
    family: Family = attrs.field(repr=lambda family: family.name)
    terms: Terms = attrs.field(repr=False)
    gpu_count: int | Fraction
    vcpus: int
    memory_gib: float
    local_ssd_gib: int = 0
    nics: int
    max_gbps: int
    note: str = ""

    @property
    def gpu(self) -> str | None:
        """The kind of GPU built in, or None for an N1 host."""
        return self.family.gpu

    @property
    def cpu_architecture(self) -> str:
        """``x86_64`` or ``arm64``; images must be built for it."""
        return self.family.cpu_architecture

    @property
    def boot_disk_types(self) -> tuple[str, ...]:
        """Disk types it boots from; the first is a sensible default."""
        return self.family.boot_disk_types

    @property
    def sources(self) -> tuple[str, ...]:
        """Keys of the documents that its facts were read in."""
        return tuple(dict.fromkeys((*self.family.sources, *self.terms.sources)))

    def sold_as(self, service: Service) -> tuple[ProvisioningModel, ...]:
        """The provisioning models one service sells it under; empty where it does not offer it."""
        return self.terms.sold_as(service)


class Machines(Shown, tuple[Machine, ...]):
    """Machine types, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        sizes = ("GPUs", "vCPUs", "GiB", "Gbps")
        columns = ("machine type", "GPU", *sizes, "CPU", "on Compute Engine", "on Vertex AI")
        rows = (
            (m.machine_type, m.gpu or "attached", m.gpu_count or "", m.vcpus, f"{m.memory_gib:g}",
             m.max_gbps, m.cpu_architecture, m.sold_as(Service.COMPUTE), m.sold_as(Service.VERTEX))
            for m in self
        )  # fmt: skip
        return Table(title="Machine types", columns=columns, rows=rows, right=sizes)


def machines() -> Machines:
    """Every machine type with its GPUs built in, then the N1 hosts that take GPUs.

    >>> [m.machine_type for m in machines() if m.gpu == "H200"]
    ['a3-ultragpu-8g', 'a3-ultragpu-8g-nolssd']
    """
    built_in = (machine for gpu in dict.fromkeys(_gpu_of(row) for row in _ROWS) for machine in with_gpu(gpu))
    return Machines((*built_in, *n1_hosts()))


def machine(machine_type: str) -> Machine:
    """One machine type by its name.

    Raises:
        NoFitError: the catalog knows no such machine type; ``nearest`` holds the most alike.

    >>> machine("a2-ultragpu-2g").vcpus
    24
    """
    for row in _ROWS:
        if row[0] == machine_type:
            return _built(row)
    for host in n1_hosts():
        if host.machine_type == machine_type:
            return host
    raise _unknown(machine_type)


@cache
def with_gpu(kind: str) -> tuple[Machine, ...]:
    """The machines with one kind of GPU built in, in the order of the table."""
    return tuple(_built(row) for row in _ROWS if _gpu_of(row) == kind)


@cache
def n1_hosts() -> tuple[Machine, ...]:
    """The N1 machine types, to which T4, V100 and P4 are attached."""
    family, terms = FAMILIES["N1"], TERMS["n1"]
    return tuple(
        Machine(
            machine_type=f"n1-{series}-{vcpus}", family=family, terms=terms, gpu_count=0,
            vcpus=vcpus, memory_gib=vcpus * gib_per_vcpu, nics=1, max_gbps=32,
        )
        for series, gib_per_vcpu in (("standard", 3.75), ("highmem", 6.5), ("highcpu", 0.9))
        for vcpus in (1, 2, 4, 8, 16, 32, 64, 96)
        if vcpus > 1 or series == "standard"
    )  # fmt: skip


_Raw = tuple[str, str, str, "int | str", int, int, int, int, int, str]


def _gpu_of(row: _Raw) -> str:
    return FAMILIES[row[1]].gpu or ""


def _built(row: _Raw) -> Machine:
    name, family, terms, gpus, vcpus, memory_gib, ssd, nics, gbps, note = row
    count = Fraction(gpus) if isinstance(gpus, str) else gpus
    return Machine(
        machine_type=name, family=FAMILIES[family], terms=TERMS[terms], gpu_count=count,
        vcpus=vcpus, memory_gib=memory_gib, local_ssd_gib=ssd,
        nics=nics, max_gbps=gbps, note=note,
    )  # fmt: skip


def _unknown(machine_type: str) -> Exception:
    known = [*(row[0] for row in _ROWS), *(host.machine_type for host in n1_hosts())]
    nearest = tuple(get_close_matches(str(machine_type), known, n=3))
    return NoFitError(
        f"the catalog knows no machine type {str(machine_type)[:60]!r}",
        why=f"the nearest: {', '.join(nearest)}" if nearest else "it is like no machine type with GPUs",
        fix="take one of gputrain.catalog.machines()",
        nearest=nearest,
    )


_SLICE = "a vGPU slice, which the API counts as 1 GPU; not for training on several GPUs"
_LISTED = "seen in gcloud's listing only, in no document"
_NICS = "Vertex AI's page says 2400 Gbps"

# machine type, family, terms, GPUs, vCPUs, memory GiB,
# local SSD GiB, network interfaces, Gbps, note
_ROWS: tuple[_Raw, ...] = (
    ("a4x-maxgpu-4g-metal", "A4X Max", "a4x-max", 4, 144, 960, 12000, 6, 3600, ""),
    ("a4x-highgpu-4g", "A4X", "a4x", 4, 140, 884, 12000, 6, 2000, _NICS),
    ("a4-highgpu-8g", "A4", "a4", 8, 224, 3968, 12000, 10, 3600, ""),
    ("a3-ultragpu-8g", "A3 Ultra", "a4", 8, 224, 2952, 12000, 10, 3600, ""),
    ("a3-ultragpu-8g-nolssd", "A3 Ultra", "a3-ultra-nolssd", 8, 224, 2952, 0, 10, 3600, _LISTED),
    ("a3-megagpu-8g", "A3 Mega", "a3-mega", 8, 208, 1872, 6000, 9, 1800, ""),
    ("a3-highgpu-1g", "A3 High 1-4", "a3-high-small", 1, 26, 234, 750, 1, 25, ""),
    ("a3-highgpu-2g", "A3 High 1-4", "a3-high-small", 2, 52, 468, 1500, 1, 50, ""),
    ("a3-highgpu-4g", "A3 High 1-4", "a3-high-small", 4, 104, 936, 3000, 1, 100, ""),
    ("a3-highgpu-8g", "A3 High", "a3-high", 8, 208, 1872, 6000, 5, 1000, ""),
    ("a3-edgegpu-8g", "A3 Edge", "a3-edge", 8, 208, 1872, 6000, 5, 400, ""),
    ("a3-edgegpu-8g-nolssd", "A3 Edge", "a3-edge", 8, 208, 1872, 0, 5, 400, _LISTED),
    ("a2-ultragpu-1g", "A2 Ultra", "a2", 1, 12, 170, 375, 1, 24, ""),
    ("a2-ultragpu-2g", "A2 Ultra", "a2", 2, 24, 340, 750, 1, 32, ""),
    ("a2-ultragpu-4g", "A2 Ultra", "a2", 4, 48, 680, 1500, 1, 50, ""),
    ("a2-ultragpu-8g", "A2 Ultra", "a2", 8, 96, 1360, 3000, 1, 100, ""),
    ("a2-highgpu-1g", "A2 Standard", "a2", 1, 12, 85, 0, 1, 24, ""),
    ("a2-highgpu-2g", "A2 Standard", "a2", 2, 24, 170, 0, 1, 32, ""),
    ("a2-highgpu-4g", "A2 Standard", "a2", 4, 48, 340, 0, 1, 50, ""),
    ("a2-highgpu-8g", "A2 Standard", "a2", 8, 96, 680, 0, 1, 100, ""),
    ("a2-megagpu-16g", "A2 Standard", "a2", 16, 96, 1360, 0, 1, 100, ""),
    ("g4-standard-6", "G4", "g4-part", "1/8", 6, 22, 0, 1, 20, _SLICE),
    ("g4-standard-12", "G4", "g4-part", "1/4", 12, 45, 0, 1, 20, _SLICE),
    ("g4-standard-24", "G4", "g4-part", "1/2", 24, 90, 0, 1, 20, _SLICE),
    ("g4-standard-48", "G4", "g4", 1, 48, 180, 0, 1, 50, ""),
    ("g4-standard-96", "G4", "g4", 2, 96, 360, 0, 1, 100, ""),
    ("g4-standard-192", "G4", "g4", 4, 192, 720, 0, 1, 200, ""),
    ("g4-standard-384", "G4", "g4", 8, 384, 1440, 0, 2, 400, ""),
    ("g2-standard-4", "G2", "g2", 1, 4, 16, 0, 1, 10, ""),
    ("g2-standard-8", "G2", "g2", 1, 8, 32, 0, 1, 16, ""),
    ("g2-standard-12", "G2", "g2", 1, 12, 48, 0, 1, 16, ""),
    ("g2-standard-16", "G2", "g2", 1, 16, 64, 0, 1, 32, ""),
    ("g2-standard-24", "G2", "g2", 2, 24, 96, 0, 1, 32, ""),
    ("g2-standard-32", "G2", "g2", 1, 32, 128, 0, 1, 32, ""),
    ("g2-standard-48", "G2", "g2", 4, 48, 192, 0, 1, 50, ""),
    ("g2-standard-96", "G2", "g2", 8, 96, 384, 0, 1, 100, ""),
)


@attrs.frozen(kw_only=True)
class Attachment(Shown):
    """The largest N1 machine that may carry a count of one GPU kind, on Compute Engine."""

    gpu: str
    gpu_count: int
    max_vcpus: int
    max_memory_gib: int
    source: str = "gpus"


# kind, GPUs, most vCPUs, most memory in GiB. P100 is gone, so its rows are not kept.
_LIMITS = (
    ("T4", 1, 48, 312),
    ("T4", 2, 48, 312),
    ("T4", 4, 96, 624),
    ("V100", 1, 12, 78),
    ("V100", 2, 24, 156),
    ("V100", 4, 48, 312),
    ("V100", 8, 96, 624),
    ("P4", 1, 24, 156),
    ("P4", 2, 48, 312),
    ("P4", 4, 96, 624),
)

ATTACHMENTS = tuple(
    Attachment(gpu=gpu, gpu_count=count, max_vcpus=vcpus, max_memory_gib=memory)
    for gpu, count, vcpus, memory in _LIMITS
)

# vCPUs of the N1 machine: GPU counts Vertex AI takes on it (source vertex-machines, medium: its blank cells
# were lost in the copy and the columns rebuilt from the limits). n1-highcpu starts at 16, n1-standard at 4.
_FOURS = {2: (1, 2, 4), 4: (1, 2, 4), 8: (1, 2, 4), 16: (1, 2, 4), 32: (2, 4), 64: (4,), 96: (4,)}
_EIGHTS = {2: (1, 2, 4, 8), 4: (1, 2, 4, 8), 8: (1, 2, 4, 8), 16: (2, 4, 8), 32: (4, 8), 64: (8,), 96: (8,)}
_VERTEX = {"T4": _FOURS, "P4": _FOURS, "V100": _EIGHTS}
_VERTEX_FIRST = {"standard": 4, "highmem": 2, "highcpu": 16}

VCPUS_PER_GPU = 8
"""Host size chosen for an attached GPU when no machine type is asked for: n1-standard with 8 vCPUs a GPU.

Our choice: enough processes to feed the GPU, within every limit of both services.
"""


def default_host(count: int) -> str:
    """The N1 machine type that carries a count of GPUs when none is asked for."""
    return f"n1-standard-{count * VCPUS_PER_GPU}"


def vertex_counts(gpu: str, machine_type: str) -> tuple[int, ...]:
    """The GPU counts that Vertex AI takes on an N1 machine.

    >>> vertex_counts("T4", "n1-standard-32")
    (2, 4)
    """
    _, series, vcpus = machine_type.split("-")
    if int(vcpus) < _VERTEX_FIRST[series]:
        return ()
    return _VERTEX.get(gpu, {}).get(int(vcpus), ())
