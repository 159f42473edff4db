"""The values that the catalog answers with: GPUs, machines, shapes, prices, quotas, networks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from fractions import Fraction

import attrs

from gputrain.display.table import Table, TableDisplay

FLEX_START_LONGEST_RUN_S = 7 * 24 * 3600
"""The longest a flex-start machine or job may run. Source: flex-start and compute-client, 2026-11-20."""

ANY_RESERVATION = "any"
"""Instead of a reservation's name: any that is open to all."""


class Word(enum.Enum):
    """An enum whose text is its value."""

    def __str__(self) -> str:
        return str(self.value)


class Service(Word):
    """The Google Cloud service that runs a machine."""

    COMPUTE = "compute"
    """Compute Engine VMs."""
    VERTEX = "vertex"
    """Vertex AI custom training jobs (in 2026 also "Gemini Enterprise Agent Platform" training)."""


class ProvisioningModel(Word):
    """How a machine is bought: Google's words are the names.

    Source: google-cloud-compute 1.56.0, ``Scheduling.ProvisioningModel``, read 2026-11-20.
    """

    STANDARD = "standard"
    """On demand, until it is deleted."""
    SPOT = "spot"
    """Cheaper, and preempted at any time."""
    FLEX_START = "flex-start"
    """Waits in a queue, then runs undisturbed for at most 7 days; billed at its own prices."""
    RESERVATION_BOUND = "reservation-bound"
    """Only inside a reservation, and ends with it."""


class Stage(Word):
    """Where a GPU is in its life: sold, sold with an announced end, or no longer created."""

    ACTIVE = "active"
    DEPRECATED = "deprecated"
    GONE = "gone"


class Confidence(Word):
    """How sure a fact is: read in Google's own documents, read at second hand, or inferred."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class CompactPlacement(Word):
    """What compact placement means to a family: how a compact policy serves training on several nodes."""

    OPTIONAL = "optional"
    SUPPORTED = "supported"
    RECOMMENDED = "recommended"
    BY_RESERVATION = "by-reservation"
    """Density comes from the reservation's blocks."""
    NVLINK_DOMAIN = "nvlink-domain"
    """A compact policy with a GPU topology keeps the VMs in one NVLink domain."""


class GpuNetworking(Word):
    """What NCCL sends by."""

    AUTO = "auto"
    """The fastest way that is known to work with the machine, its boot image and the networks named."""
    GIB = "gib"
    """GPUDirect RDMA over RoCE, by Google's gIB plugin: A3 Ultra, A4, A4X."""
    TCPXO = "tcpxo"
    """A3 Mega; by the FasTrak plugin and its daemon."""
    TCPX = "tcpx"
    """A3 High with 8 GPUs and A3 Edge; by its plugin and its daemon."""
    FAST_SOCKET = "fast-socket"
    """A2, G2 and N1; Google's plugin over one interface, whose source has not changed since 2023."""
    MULTI_NIC = "multi-nic"
    """G4 with 8 GPUs: plain sockets over all interfaces."""
    SINGLE_NIC = "single-nic"
    """Plain sockets over the first interface, on every machine."""


@attrs.frozen(kw_only=True)
class Source(TableDisplay):
    """A document that facts were read in, the document's own date, and the day it was read."""

    key: str
    what: str
    dated: str
    read_on: str = "2026-11-20"


@attrs.frozen(kw_only=True)
class Lifecycle(TableDisplay):
    """Where a GPU stands, and the ISO day it ends; empty where no end is announced."""

    stage: Stage = Stage.ACTIVE
    ends: str = ""
    note: str = ""
    source: str = "gpus"


@attrs.frozen(kw_only=True)
class Gpu(TableDisplay):
    """One kind of GPU.

    ``memory_gib`` is what Google prints for it; ``bf16_tflops`` is the dense figure (Google's own table
    prints sparse ones for Hopper and newer); None means that the hardware has no such arithmetic.
    ``nvlink_gb_s`` is both ways together; None where it has no NVLink.
    ``cuda_dropped_in`` is the first CUDA release that cannot drive it any more,
    ``torch_dropped_in`` the first CUDA build of PyTorch's wheels without its architecture, which the PyTorch
    releases in ``torch_kept`` still have; empty where there is none.
    """

    kind: str
    """Our word for it, as in ``gpu="H100:2"``."""
    name: str
    accelerator_type: str
    """Compute Engine's word."""
    vertex_accelerator_type: str | None = None
    """Vertex AI's word, or None where Vertex does not know it."""
    memory_gib: int
    architecture: str
    compute_capability: str
    min_cuda: str
    min_driver: str
    cuda_dropped_in: str = ""
    torch_dropped_in: str = ""
    torch_kept: tuple[str, ...] = ()
    bf16_tflops: float | None = None
    memory_gb_s: int
    nvlink_gb_s: int | None = None
    also_known_as: tuple[str, ...] = ()
    lifecycle: Lifecycle = attrs.field(default=Lifecycle(), repr=False)
    instead: tuple[str, ...] = ()
    """Kinds to take once this one is gone."""
    sources: tuple[str, ...]

    @property
    def sm(self) -> str:
        """The architecture as the CUDA compiler names it, such as ``sm_90``."""
        return f"sm_{self.compute_capability.replace('.', '')}"

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as numbers, so that 10.0 comes after 9.0."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it goes by, our own first."""
        googles = (self.accelerator_type, self.vertex_accelerator_type)
        named = (self.kind, *googles, self.name, *self.also_known_as)
        return tuple(dict.fromkeys(name for name in named if name))


class Gpus(TableDisplay, tuple[Gpu, ...]):
    """GPUs, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        sizes = ("GiB", "GB/s", "NVLink GB/s", "bf16 TFLOPS")
        columns = ("kind", *sizes, "capability", "CUDA from", "driver from", "Compute", "Vertex AI", "life")
        rows = (
            (g.kind, g.memory_gib, g.memory_gb_s, g.nvlink_gb_s,
             None if g.bf16_tflops is None else f"{g.bf16_tflops:g}", g.compute_capability, g.min_cuda,
             g.min_driver, g.accelerator_type, g.vertex_accelerator_type,
             f"{g.lifecycle.stage} {g.lifecycle.ends}" if g.lifecycle.ends else "")
            for g in self
        )  # fmt: skip
        return Table(title="GPUs on Google Cloud", columns=columns, rows=rows, right=sizes)


@attrs.frozen(kw_only=True)
class NotSold(TableDisplay):
    """A card that exists but cannot be had on Google Cloud.

    ``nearest`` holds kinds that are sold, the closest in memory and architecture first.
    """

    name: str
    maker: str = "NVIDIA"
    memory_gib: int | None = None
    architecture: str = ""
    nearest: tuple[str, ...]
    announced: str = ""
    """The machines that Google says it will come in; empty: none."""
    source: str = "gpus"


@attrs.frozen(kw_only=True)
class Family(TableDisplay):
    """What the machines of one family share, and how they are sold.

    ``gpu`` is the kind built in, or None for hosts that GPUs are attached to.
    ``compute`` and ``vertex`` hold the provisioning models that each service sells them under. On Vertex AI
    a reservation is named in the job (``reservationAffinity``) for any machine, so
    ``reservation-bound`` is offered there wherever Compute Engine takes a reservation for it.
    All stop on host maintenance: no machine with a GPU migrates live.
    """

    key: str
    name: str
    gpu: str | None = None
    cpu_platform: str
    cpu_architecture: str = "x86_64"
    boot_disk_types: tuple[str, ...] = ()
    placement: CompactPlacement = CompactPlacement.OPTIONAL
    needs_cpu_quota: bool = False
    compute: tuple[ProvisioningModel, ...] = ()
    vertex: tuple[ProvisioningModel, ...] = ()
    reservations: tuple[str, ...] = ()
    """The kinds that Google takes: ``on-demand``, ``future``, ``calendar``."""
    billed_as: str = ""
    """The price list's word for its cores and memory; empty: none, or the sums are not settled."""
    note: str = ""
    compute_note: str = ""
    vertex_note: str = ""
    confidence: Confidence = Confidence.MEDIUM
    sources: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Machine(TableDisplay):
    """A machine type.

    ``gpu_count`` counts the GPUs built in: a whole number, a `Fraction` where the machine carries a part
    of one, 0 for an N1 host that GPUs are attached to. ``local_ssd_gib`` comes with the machine.
    """

    machine_type: str
    family: Family = attrs.field(repr=lambda family: family.name)
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

    def sold_as(self, service: Service) -> tuple[ProvisioningModel, ...]:
        """The provisioning models one service sells it under; empty where it does not offer it."""
        return self.family.compute if Service(service) is Service.COMPUTE else self.family.vertex


class Machines(TableDisplay, tuple[Machine, ...]):
    """Machine types, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        sizes = ("GPUs", "vCPUs", "GiB", "Gbps")
        columns = ("machine type", "GPU", *sizes, "CPU", "on Compute Engine", "on Vertex AI")
        rows = (
            (m.machine_type, m.gpu or "attached", m.gpu_count or "", m.vcpus, f"{m.memory_gib:g}",
             m.max_gbps, m.cpu_architecture, m.family.compute, m.family.vertex)
            for m in self
        )  # fmt: skip
        return Table(title="Machine types", columns=columns, rows=rows, right=sizes)


@attrs.frozen(kw_only=True)
class Attachment(TableDisplay):
    """The largest N1 machine that may carry a count of one GPU kind: on Compute Engine, and on Vertex AI."""

    gpu: str
    gpu_count: int
    max_vcpus: int
    max_memory_gib: int
    vertex_max_vcpus: int
    source: str


@attrs.frozen(kw_only=True)
class Shape(TableDisplay):
    """``gpu_count`` GPUs of one kind on one machine: what one node is made of."""

    gpu: Gpu = attrs.field(repr=lambda gpu: gpu.kind)
    gpu_count: int | Fraction
    machine: Machine = attrs.field(repr=lambda machine: machine.machine_type)
    attachment: Attachment | None = attrs.field(default=None, repr=False)
    """The limits under which the GPUs are attached to an N1 host; None where they are built in."""

    @property
    def machine_type(self) -> str:
        """Google's name of the machine."""
        return self.machine.machine_type

    @property
    def is_attached(self) -> bool:
        """Whether the GPUs are attached to an N1 host (``guestAccelerators``) rather than built in."""
        return self.attachment is not None

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
        is_vertex = Service(service) is Service.VERTEX
        if is_vertex and self.attachment and self.machine.vcpus > self.attachment.vertex_max_vcpus:
            return ()
        return self.machine.sold_as(service)


class Shapes(TableDisplay, tuple[Shape, ...]):
    """Shapes, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        sizes = ("GPU", "count", "machine type", "GPU GiB", "vCPUs", "GiB")
        columns = (*sizes, "on Compute Engine", "on Vertex AI")
        rows = (
            (s.gpu.kind, s.gpu_count, s.machine_type, f"{s.gpu_memory_gib:g}", s.machine.vcpus,
             f"{s.machine.memory_gib:g}", s.sold_as(Service.COMPUTE), s.sold_as(Service.VERTEX))
            for s in self
        )  # fmt: skip
        right = ("count", "GPU GiB", "vCPUs", "GiB")
        return Table(title="Shapes on Google Cloud", columns=columns, rows=rows, right=right)


@attrs.frozen(kw_only=True)
class Price(TableDisplay):
    """US dollars an hour for one machine with its GPUs, in one region, under one provisioning model.

    ``leaves_out`` names what the figure does not hold; with anything there it is a lower bound.
    Disks, network traffic and discounts are never in it.
    """

    usd_h: float
    source: str
    date: str
    """The day of the price list, as ISO text."""
    leaves_out: tuple[str, ...] = ()
    gpu: str = ""
    gpu_count: int | Fraction = 0
    machine_type: str = ""
    region: str = ""
    provisioning_model: ProvisioningModel | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the figure is the whole price of the machine, and not a lower bound."""
        return not self.leaves_out

    def __str__(self) -> str:
        least = "" if self.is_whole else "at least "
        note = "" if self.is_whole else f", without {' and '.join(self.leaves_out)}"
        return f"{least}${self.usd_h:,.2f}/h ({self.date}{note})"


class Prices(TableDisplay, tuple[Price, ...]):
    """Prices, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        columns = ("$/h", "region", "model", "GPUs", "machine")
        rows = (
            (f"{'' if p.is_whole else '≥ '}{p.usd_h:,.2f}", p.region, p.provisioning_model,
             f"{float(p.gpu_count):g} x {p.gpu}", p.machine_type)
            for p in self
        )  # fmt: skip
        caption = f"prices of {max(p.date for p in self)}" if self else "no known price"
        return Table(title="Prices per hour", columns=columns, rows=rows, right=("$/h",), caption=caption)


@attrs.frozen(kw_only=True)
class Quota(TableDisplay):
    """One quota, counted in GPUs or vCPUs for each project and region.

    ``metric`` is where its limit and usage are read: in Compute Engine's ``regions.get`` (None where that
    omits it, which means unknown, not 0), or as Vertex AI's ``aiplatform.googleapis.com`` metric.
    ``quota_id`` is its id in the Cloud Quotas API, ``gpu_family`` a further dimension where there is one.
    """

    service: Service
    metric: str | None = None
    quota_id: str | None = None
    gpu_family: str | None = None
    confidence: Confidence = Confidence.HIGH
    note: str = ""
    sources: tuple[str, ...]

    @property
    def api(self) -> str:
        """The service name that Cloud Quotas files it under."""
        return "compute.googleapis.com" if self.service is Service.COMPUTE else "aiplatform.googleapis.com"

    @property
    def name(self) -> str:
        """How errors and tables call it."""
        family = f" ({self.gpu_family})" if self.gpu_family else ""
        return f"{self.metric or self.quota_id}{family}"


@attrs.frozen(kw_only=True)
class Fabric(TableDisplay):
    """One way in which the GPUs of several machines of a family talk.

    ``data_gvnics`` and ``rdma_nics`` count interfaces beside the first, each gVNIC in a network of its own.
    ``environment`` holds what ranks get: ``{control}`` is the first interface, ``{data[0]}`` the next one,
    ``{all_data}`` and ``{gvnics}`` are lists with commas.
    """

    networking: GpuNetworking = attrs.field(converter=GpuNetworking)
    net: str
    """What NCCL calls it, in its line "Using network"."""
    nic_gbps: int = 0
    """Gbps of each interface that data goes by; 0: as much as the machine has."""
    data_gvnics: int = 0
    rdma_nics: int = 0
    mtu: int = 1460
    """Of the networks beside the first; that of the first one is 1460 unless you say otherwise."""
    roce_profile: str = ""
    """Suffix of the network profile the RDMA network is made with; the zone comes before it."""
    plugin: str = ""
    """The container image that installs the plugin, or the package that holds it."""
    daemon: str = ""
    """The container image that has to run beside the ranks."""
    libraries: str = ""
    """The folder on the VM that the plugin is installed in."""
    cuda: str = ""
    """The CUDA release whose runtime the plugin loads from the job's image; empty: any."""
    environment: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    note: str = ""
    confidence: Confidence = attrs.field(default=Confidence.MEDIUM, converter=Confidence)
    sources: tuple[str, ...] = attrs.field(converter=tuple)

    @property
    def nics(self) -> tuple[str, ...]:
        """The ``nicType`` of each interface beside the first, in the order that Google wants them."""
        return ("GVNIC",) * self.data_gvnics + ("MRDMA",) * self.rdma_nics

    @property
    def is_plain(self) -> bool:
        """Whether NCCL does it by itself, without a plugin."""
        return not self.plugin

    def gbps_per_gpu(self, shape: Shape) -> float:
        """Gbps that one GPU can send to other machines at most: the lines' rate, which no job reaches."""
        most = shape.machine.max_gbps
        of_data = self.rdma_nics or self.data_gvnics
        if of_data and not self.is_plain:
            most = of_data * self.nic_gbps
        elif self.nic_gbps:
            most = self.nic_gbps * (1 + self.data_gvnics)
        return most / shape.api_gpu_count
