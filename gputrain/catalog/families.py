"""Machine families and the terms they are sold on: what all machines of one family share."""

from __future__ import annotations

import enum

import attrs

from gputrain.tables import Shown

FLEX_START_LONGEST_RUN_S = 7 * 24 * 3600
"""The longest a flex-start machine or job may run. Source: flex-start and compute-client, 2026-11-20."""


class Word(enum.Enum):
    """An enum whose text is its value."""

    def __str__(self) -> str:
        return str(self.value)


class Service(Word):
    """The Google Cloud service a machine is asked of."""

    COMPUTE = "compute"
    """Compute Engine VMs."""
    VERTEX = "vertex"
    """Vertex AI custom training jobs (in 2026 also "Gemini Enterprise Agent Platform" training)."""


ANY_RESERVATION = "any"
"""In the place of a reservation's name: whichever is open to all."""


class ProvisioningModel(Word):
    """How a machine is bought.

    Source: google-cloud-compute 1.56.0, ``Scheduling.ProvisioningModel``, read 2026-11-20.
    """

    STANDARD = "standard"
    """On demand, until it is deleted."""
    SPOT = "spot"
    """Cheaper, and taken away at any time."""
    FLEX_START = "flex-start"
    """Waits in a queue, then runs undisturbed for at most 7 days; billed at its own prices."""
    RESERVATION_BOUND = "reservation-bound"
    """Only inside a reservation, and ends with it."""


class ReservationKind(Word):
    """The kinds of reservation Google takes for a machine."""

    ON_DEMAND = "on-demand"
    """Made at once when there is capacity; its machines are used as ``standard``."""
    FUTURE = "future"
    """Asked for ahead of time, for a start date."""
    CALENDAR = "calendar"
    """A future reservation taken from a calendar of free capacity."""


class Stage(Word):
    """Where a GPU is in its life on Google Cloud."""

    ACTIVE = "active"
    DEPRECATED = "deprecated"
    """Still sold; its end date is announced."""
    GONE = "gone"
    """Can no longer be created."""


class Confidence(Word):
    """How sure a fact is; what is not HIGH is checked against the live API before money is spent on it."""

    HIGH = "high"
    """Read in Google's own documents or client libraries."""
    MEDIUM = "medium"
    """Read at second hand, or parts of the page were lost."""
    LOW = "low"
    """Inferred."""


class CompactPlacement(Word):
    """What compact placement means to a family."""

    OPTIONAL = "optional"
    SUPPORTED = "supported"
    """A compact policy works; its max-distance needs an allow-list."""
    RECOMMENDED = "recommended"
    """As supported, and Google recommends it for training on several nodes."""
    BY_RESERVATION = "by-reservation"
    """Density comes from the reservation's blocks."""
    NVLINK_DOMAIN = "nvlink-domain"
    """A compact policy with a GPU topology keeps the VMs in one NVLink domain."""


@attrs.frozen(kw_only=True)
class Terms(Shown):
    """Under which provisioning models a machine is sold, by each service.

    On Vertex AI a reservation is named in the job (``reservationAffinity``) whatever the machine,
    so ``reservation-bound`` is offered there wherever Compute Engine takes a reservation for it.
    """

    compute: tuple[ProvisioningModel, ...] = ()
    vertex: tuple[ProvisioningModel, ...] = ()
    reservations: tuple[ReservationKind, ...] = ()
    note: str = ""
    vertex_note: str = ""
    confidence: Confidence = Confidence.MEDIUM
    sources: tuple[str, ...] = ("gpus", "machines", "vertex-machines", "flex-start")

    def sold_as(self, service: Service) -> tuple[ProvisioningModel, ...]:
        """The provisioning models one service sells it under; empty where it does not offer it."""
        return self.compute if Service(service) is Service.COMPUTE else self.vertex


@attrs.frozen(kw_only=True)
class Family(Shown):
    """What the machines of one family share.

    ``gpu`` is the kind built in, or None for hosts that GPUs are attached to.
    How the GPUs of several machines talk is in `gputrain.catalog.fabrics`.
    All stop on host maintenance: no machine with a GPU migrates live.
    """

    name: str
    gpu: str | None
    cpu_platform: str
    cpu_architecture: str = "x86_64"
    boot_disk_types: tuple[str, ...] = ("pd-balanced", "pd-ssd", "hyperdisk-balanced")
    placement: CompactPlacement = CompactPlacement.OPTIONAL
    needs_cpu_quota: bool = False
    note: str = ""
    sources: tuple[str, ...] = ("gpus", "machines")


_STANDARD, _SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
_FLEX, _RESERVED = ProvisioningModel.FLEX_START, ProvisioningModel.RESERVATION_BOUND
_ALL = (_STANDARD, _SPOT, _FLEX, _RESERVED)
_NOW, _AHEAD, _CALENDAR = ReservationKind.ON_DEMAND, ReservationKind.FUTURE, ReservationKind.CALENDAR

_WAIT_OR_RESERVE = "no plain on-demand: Spot, Flex-start or a reservation"
_RESERVE_ONLY = "reservation only, through the account team; no Spot, no Flex-start, no SLA"
_BETTER_RESERVED = "Google recommends a reservation or Spot"

_SEEN_BY_GPUHUNT = ("gpus", "machines", "vertex-machines", "flex-start", "gpuhunt")
"""gpuhunt leaves exactly these out of on-demand: A4X, A4, A3 Ultra, and A3 High below 8 GPUs."""

# Flex-start on Vertex AI: L4, A100, H100, H200 and B200 only (source flex-start).
TERMS = {
    "a4x-max": Terms(
        compute=(_RESERVED,), reservations=(_AHEAD,), note=_RESERVE_ONLY, confidence=Confidence.HIGH,
        vertex_note="not offered: Vertex AI has no name for the GB300",
    ),
    "a4x": Terms(
        compute=(_RESERVED,), vertex=(_RESERVED,), reservations=(_AHEAD,), note=_RESERVE_ONLY,
        confidence=Confidence.HIGH, vertex_note="requires a shared reservation",
        sources=_SEEN_BY_GPUHUNT,
    ),
    "a4": Terms(
        compute=(_SPOT, _FLEX, _RESERVED), vertex=_ALL, reservations=(_AHEAD, _CALENDAR),
        note=_WAIT_OR_RESERVE, vertex_note=_BETTER_RESERVED, confidence=Confidence.HIGH,
        sources=_SEEN_BY_GPUHUNT,
    ),
    "a3-ultra-nolssd": Terms(
        compute=(_SPOT, _FLEX, _RESERVED), reservations=(_AHEAD, _CALENDAR), note=_WAIT_OR_RESERVE,
        vertex_note="not listed",
    ),
    "a3-mega": Terms(
        compute=_ALL, vertex=(_STANDARD, _SPOT, _RESERVED), reservations=(_NOW, _AHEAD, _CALENDAR),
        vertex_note=f"{_BETTER_RESERVED}; Flex-start is not listed for it",
    ),
    "a3-high": Terms(compute=_ALL, vertex=_ALL, reservations=(_NOW, _AHEAD, _CALENDAR)),
    "a3-high-small": Terms(
        compute=(_SPOT, _FLEX), vertex=(_STANDARD, _SPOT, _FLEX), confidence=Confidence.HIGH,
        note="below 8 GPUs an H100 machine must be Spot or Flex-start",
        vertex_note="Vertex AI does not state the Spot or Flex-start rule; expect stockouts as standard",
        sources=_SEEN_BY_GPUHUNT,
    ),
    "a3-edge": Terms(
        compute=(_STANDARD, _SPOT), reservations=(_NOW,), note="made for serving, few regions",
        vertex_note="not listed", confidence=Confidence.LOW,
    ),
    "a2": Terms(compute=(_STANDARD, _SPOT, _FLEX), vertex=_ALL, reservations=(_NOW, _AHEAD)),
    "g4": Terms(
        compute=(_STANDARD, _SPOT, _FLEX), vertex=(_STANDARD, _SPOT, _RESERVED), reservations=(_NOW, _AHEAD),
        vertex_note="Flex-start is not listed for it",
    ),
    "g4-part": Terms(
        compute=(_STANDARD, _SPOT, _FLEX), reservations=(_NOW, _AHEAD),
        vertex_note="parts of a GPU are not listed",
    ),
    "g2": Terms(compute=(_STANDARD, _SPOT, _FLEX), vertex=_ALL, reservations=(_NOW, _AHEAD)),
    "n1": Terms(
        compute=(_STANDARD, _SPOT, _FLEX), vertex=(_STANDARD, _SPOT, _RESERVED), reservations=(_NOW, _AHEAD),
        note="Flex-start of a P4 is not settled", vertex_note="Flex-start is not listed for it",
    ),
}  # fmt: skip

_HYPERDISK = ("hyperdisk-balanced",)
_PERSISTENT = ("pd-balanced", "pd-ssd")
"""A2, G2 and N1 boot from no Hyperdisk Balanced. Source: machines, its tables of disks, read 2026-11-22."""
_SAPPHIRE, _EMERALD = "Intel Sapphire Rapids", "Intel Emerald Rapids"

_ROWS = (
    Family(
        name="A4X Max", gpu="GB300", cpu_platform="NVIDIA Grace", cpu_architecture="arm64",
        boot_disk_types=_HYPERDISK, placement=CompactPlacement.NVLINK_DOMAIN,
        note="the image must support IDPF network interfaces; no Windows, no sole tenancy",
        sources=("gpus", "machines", "networks"),
    ),
    Family(
        name="A4X", gpu="GB200", cpu_platform="NVIDIA Grace", cpu_architecture="arm64",
        boot_disk_types=_HYPERDISK, placement=CompactPlacement.NVLINK_DOMAIN,
        sources=("gpus", "machines", "networks"),
    ),
    Family(
        name="A4", gpu="B200", cpu_platform=_EMERALD, boot_disk_types=_HYPERDISK,
        placement=CompactPlacement.BY_RESERVATION, sources=("gpus", "machines", "networks"),
    ),
    Family(
        name="A3 Ultra", gpu="H200", cpu_platform=_EMERALD, boot_disk_types=_HYPERDISK,
        placement=CompactPlacement.BY_RESERVATION, sources=("gpus", "machines", "networks"),
    ),
    Family(
        name="A3 Mega", gpu="H100-MEGA", cpu_platform=_SAPPHIRE, placement=CompactPlacement.RECOMMENDED,
        sources=("gpus", "machines", "networks"),
    ),
    Family(
        name="A3 High", gpu="H100", cpu_platform=_SAPPHIRE, placement=CompactPlacement.SUPPORTED,
        sources=("gpus", "machines", "networks"),
    ),
    Family(name="A3 High 1-4", gpu="H100", cpu_platform=_SAPPHIRE),
    Family(
        name="A3 Edge", gpu="H100", cpu_platform=_SAPPHIRE,
        note="600 Gbps in asia-south1 and northamerica-northeast2",
    ),
    Family(
        name="A2 Ultra", gpu="A100-80GB", cpu_platform="Intel Cascade Lake", boot_disk_types=_PERSISTENT
    ),
    Family(
        name="A2 Standard", gpu="A100-40GB", cpu_platform="Intel Cascade Lake", boot_disk_types=_PERSISTENT
    ),
    Family(name="G4", gpu="RTX-PRO-6000", cpu_platform="AMD EPYC Turin", boot_disk_types=_HYPERDISK),
    Family(name="G2", gpu="L4", cpu_platform="Intel Cascade Lake", boot_disk_types=_PERSISTENT),
    Family(
        name="N1", gpu=None, cpu_platform="Intel Skylake, Broadwell or Haswell", needs_cpu_quota=True,
        boot_disk_types=_PERSISTENT, sources=("gpus", "machines", "n1"),
    ),
)  # fmt: skip

FAMILIES = {family.name: family for family in _ROWS}
