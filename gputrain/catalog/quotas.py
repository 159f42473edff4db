"""The names of the quotas that GPUs count against."""

from __future__ import annotations

import attrs

from gputrain.tables import Shown

from .families import Confidence, ProvisioningModel, Service
from .gpu import Gpu
from .names import find


@attrs.frozen(kw_only=True)
class Quota(Shown):
    """One quota, counted in GPUs for each project and region.

    ``metric`` is where its limit and usage are read: in Compute Engine's ``regions.get`` (None where that
    omits it, which means unknown, not 0), or as Vertex AI's ``aiplatform.googleapis.com`` metric.
    ``quota_id`` is its id in the Cloud Quotas API, ``gpu_family`` a further dimension where there is one.
    """

    service: Service
    metric: str | None
    quota_id: str | None
    gpu_family: str | None = None
    confidence: Confidence = Confidence.HIGH
    note: str = ""
    sources: tuple[str, ...] = ("compute-client", "live-quotas")

    @property
    def api(self) -> str:
        """The service name that Cloud Quotas files it under."""
        return "compute.googleapis.com" if self.service is Service.COMPUTE else "aiplatform.googleapis.com"

    @property
    def name(self) -> str:
        """How errors and tables call it."""
        family = f" ({self.gpu_family})" if self.gpu_family else ""
        return f"{self.metric or self.quota_id}{family}"


ALL_REGIONS = Quota(
    service=Service.COMPUTE, metric="GPUS_ALL_REGIONS", quota_id="GPUS-ALL-REGIONS-per-project",
    note="all GPUs of the project together; read with projects.get",
)  # fmt: skip

CPUS = Quota(
    service=Service.COMPUTE, metric="CPUS", quota_id="CPUS-per-project-region", confidence=Confidence.MEDIUM,
    note="N1 hosts need it, counted in vCPUs",
)  # fmt: skip
PREEMPTIBLE_CPUS = Quota(
    service=Service.COMPUTE, metric="PREEMPTIBLE_CPUS", quota_id="PREEMPTIBLE-CPUS-per-project-region",
    confidence=Confidence.MEDIUM, note=CPUS.note,
)  # fmt: skip
CPUS_ALL_REGIONS = Quota(
    service=Service.COMPUTE, metric="CPUS_ALL_REGIONS", quota_id="CPUS-ALL-REGIONS-per-project",
    confidence=Confidence.MEDIUM, note="the vCPUs of all N1 hosts together; read with projects.get",
)  # fmt: skip
A2_CPUS = Quota(
    service=Service.COMPUTE, metric="A2_CPUS", quota_id="A2-CPUS-per-project-region",
    confidence=Confidence.LOW,
    note="by Google's text A2 needs no CPU quota; one user met this one as a limit (2026-08)",
)  # fmt: skip


def is_of_all_regions(metric: str) -> bool:
    """Whether a quota counts all regions together, as GPUS_ALL_REGIONS and CPUS_ALL_REGIONS do.

    Source: compute v1 Quota.Metric, read 2026-11-20.
    """
    return metric.lower().endswith("_all_regions")


_MODEL_STEMS = ("T4", "V100", "P4", "P100", "L4", "A100", "A100_80GB")
"""GPUs with a metric of their own, on demand and preemptible. There is none called NVIDIA_H100_GPUS."""

_FAMILY = "GPUS-PER-GPU-FAMILY-per-project-region"

# kind: Compute's stem, Vertex AI's metric stem and id stem, how sure Compute's ids and Vertex AI's are
_STEMS = {
    "T4": ("T4", "t4", "T4", Confidence.HIGH, Confidence.HIGH),
    "V100": ("V100", "v100", "V100", Confidence.HIGH, Confidence.HIGH),
    "P4": ("P4", "p4", "P4", Confidence.MEDIUM, Confidence.MEDIUM),
    "P100": ("P100", "p100", "P100", Confidence.MEDIUM, Confidence.MEDIUM),
    "L4": ("L4", "l4", "L4", Confidence.HIGH, Confidence.HIGH),
    "A100-40GB": ("A100", "a100", "A100", Confidence.HIGH, Confidence.HIGH),
    "A100-80GB": ("A100_80GB", "a100_80gb", "A10080GB", Confidence.HIGH, Confidence.HIGH),
    "H100": ("H100", "h100", "H100", Confidence.HIGH, Confidence.HIGH),
    "H100-MEGA": ("H100_MEGA", "h100_mega", "H100MEGA", Confidence.MEDIUM, Confidence.MEDIUM),
    "H200": ("H200", "h200", "H200", Confidence.MEDIUM, Confidence.MEDIUM),
    "B200": ("B200", "b200", "B200", Confidence.MEDIUM, Confidence.LOW),
    "GB200": ("GB200", "gb200", "GB200", Confidence.LOW, Confidence.LOW),
    "GB300": ("GB300", "", "", Confidence.LOW, Confidence.LOW),
    "RTX-PRO-6000": ("RTX_PRO_6000", "rtx_pro_6000", "RTXPRO6000", Confidence.HIGH, Confidence.LOW),
}

# Preemptible rows of newer GPUs that regions.get may show: in the client's enum, or reported by users.
_SEEN_PREEMPTIBLE = ("H100", "RTX_PRO_6000")
_NO_PREEMPTIBLE = ("GB200", "GB300")  # sold by reservation only


def quota(
    gpu: Gpu | str,
    provisioning_model: ProvisioningModel | str = ProvisioningModel.STANDARD,
    *,
    service: Service | str = Service.COMPUTE,
) -> Quota | None:
    """The quota that GPUs of one kind count against, or None where none is known.

    Spot and Flex-start count against the preemptible quotas on both services.
    Compute Engine's quotas do not apply to Vertex AI.
    For ``reservation-bound`` none is known: the reservation itself was counted when it was made.

    Raises:
        UnknownGpuError: no GPU goes by that name.

    Source: google-cloud-compute 1.56.0 ``Quota.Metric`` and live reads, 2026-11-20.

    >>> quota("H100").name
    'GPUS-PER-GPU-FAMILY-per-project-region (NVIDIA_H100)'
    >>> quota("H100", ProvisioningModel.SPOT, service=Service.VERTEX).quota_id
    'CustomModelTrainingPreemptibleH100GPUsPerProjectPerRegion'
    """
    kind = (find(gpu) if isinstance(gpu, str) else gpu).kind
    model = ProvisioningModel(provisioning_model)
    if kind not in _STEMS or model is ProvisioningModel.RESERVATION_BOUND:
        return None
    is_preemptible = model is not ProvisioningModel.STANDARD
    if Service(service) is Service.VERTEX:
        return _on_vertex(kind, is_preemptible)
    stem, _, _, confidence, _ = _STEMS[kind]
    return _preemptible(stem, confidence) if is_preemptible else _on_demand(stem, confidence)


def _on_demand(stem: str, confidence: Confidence) -> Quota:
    if stem in _MODEL_STEMS:
        metric = f"NVIDIA_{stem}_GPUS"
        return Quota(
            service=Service.COMPUTE, metric=metric, quota_id=_regional(metric), confidence=confidence
        )
    return Quota(
        service=Service.COMPUTE, metric=None, quota_id=_FAMILY, gpu_family=f"NVIDIA_{stem}",
        confidence=confidence,
        note="the family's value is assumed" if stem in _NO_PREEMPTIBLE else "",
    )  # fmt: skip


def _preemptible(stem: str, confidence: Confidence) -> Quota | None:
    if stem in _NO_PREEMPTIBLE:
        return None
    metric = f"PREEMPTIBLE_NVIDIA_{stem}_GPUS"
    is_shown = stem in _MODEL_STEMS or stem in _SEEN_PREEMPTIBLE
    return Quota(
        service=Service.COMPUTE, metric=metric if is_shown else None, quota_id=_regional(metric),
        confidence=confidence,
        note="regions.get shows it for some projects only" if stem in _SEEN_PREEMPTIBLE else "",
    )  # fmt: skip


def _on_vertex(kind: str, is_preemptible: bool) -> Quota | None:
    _, metric_stem, id_stem, _, confidence = _STEMS[kind]
    if not metric_stem:
        return None
    low, high = ("preemptible_", "Preemptible") if is_preemptible else ("", "")
    return Quota(
        service=Service.VERTEX, confidence=confidence,
        metric=f"aiplatform.googleapis.com/custom_model_training_{low}nvidia_{metric_stem}_gpus",
        quota_id=f"CustomModelTraining{high}{id_stem}GPUsPerProjectPerRegion",
        note="inferred from the ids of serving quotas" if confidence is Confidence.LOW else "",
        sources=("quota-ids", "live-quotas"),
    )  # fmt: skip


def _regional(metric: str) -> str:
    """Compute's id of a metric: NVIDIA_A100_80GB_GPUS is NVIDIA-A100-80GB-GPUS-per-project-region."""
    return f"{metric.replace('_', '-')}-per-project-region"
