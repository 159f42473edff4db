"""QuotaInfo: every quota that Compute Engine and Vertex AI have, with a row for each limit in effect.

Ids and metrics: facts.gpu_quotas; CPU ids from live reads of public repositories (read 2026-11-20), the plain
Vertex AI one inferred from its preemptible sibling.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.quotas import FAMILY_METRIC, GLOBAL, Key, Quotas
from gputrain_emulator.world import Project

COMPUTE = "compute.googleapis.com"
VERTEX = "aiplatform.googleapis.com"
FAMILY_ID = "GPUS-PER-GPU-FAMILY-per-project-region"


@dataclass(frozen=True, kw_only=True)
class Quota:
    """One quota: its public names, and the metric under which the quota book counts it."""

    id: str
    service: str
    counted: str
    dimensions: tuple[str, ...] = ("region",)

    @property
    def metric(self) -> str:
        return self.counted if "/" in self.counted else f"{self.service}/{self.counted.lower()}"


_REGIONAL = (
    "INSTANCES", "A2_CPUS", "IN_USE_ADDRESSES", "DISKS_TOTAL_GB", "SSD_TOTAL_GB", "HDB_TOTAL_GB",
    "LOCAL_SSD_TOTAL_GB", "PREEMPTIBLE_LOCAL_SSD_GB",
)  # fmt: skip


@functools.cache
def quotas() -> Mapping[tuple[str, str], Quota]:
    """All quotas by (service, id)."""
    compute = [
        Quota(id="GPUS-ALL-REGIONS-per-project", service=COMPUTE, counted="GPUS_ALL_REGIONS", dimensions=()),
        Quota(id="CPUS-ALL-REGIONS-per-project", service=COMPUTE, counted="CPUS_ALL_REGIONS", dimensions=()),
        Quota(id="CPUS-per-project-region", service=COMPUTE, counted="CPUS"),
        Quota(id="PREEMPTIBLE-CPUS-per-project-region", service=COMPUTE, counted="PREEMPTIBLE_CPUS"),
        *(
            Quota(id=f"{metric.replace('_', '-')}-per-project-region", service=COMPUTE, counted=metric)
            for metric in _REGIONAL
        ),
        Quota(id=FAMILY_ID, service=COMPUTE, counted=FAMILY_METRIC, dimensions=("region", "gpu_family")),
    ]
    vertex = [
        Quota(
            id=f"CustomModelTraining{word}CPUsPerProjectPerRegion",
            service=VERTEX,
            counted=f"{VERTEX}/custom_model_training_{metric}cpus",
        )
        for word, metric in (
            ("", ""), ("Preemptible", "preemptible_"),
            *((family, f"{family.lower()}_") for family in ("N2", "N4", "C2", "M1", "G2", "A2", "A3")),
        )
    ]  # fmt: skip
    for row in facts.gpu_quotas().values():
        if row.regional_metric:
            compute.append(Quota(id=row.quota_id, service=COMPUTE, counted=row.regional_metric))
        if row.preemptible_quota_id:
            compute.append(
                Quota(id=row.preemptible_quota_id, service=COMPUTE, counted=row.preemptible_metric)
            )
        for ident, metric in (
            (row.vertex_quota_id, row.vertex_metric),
            (row.vertex_preemptible_quota_id, row.vertex_preemptible_metric),
        ):
            if ident:
                vertex.append(Quota(id=ident, service=VERTEX, counted=metric))
    return {(quota.service, quota.id): quota for quota in (*compute, *vertex)}


def key_of(quota: Quota, project: Project, dimensions: Mapping[str, str]) -> Key:
    """Where the quota book keeps the limit of these dimensions."""
    region = dimensions.get("region", "*") if "region" in quota.dimensions else GLOBAL
    return Key(
        project=project.id, metric=quota.counted, region=region, family=dimensions.get("gpu_family", "")
    )


def quota_info(quota: Quota, project: Project, book: Quotas, ineligible: str) -> dict[str, Any]:
    """The QuotaInfo resource, its rows from the most specific to the least."""
    eligibility = {"ineligibilityReason": ineligible} if ineligible else {"isEligible": True}
    words = quota.metric.partition("/")[2].replace("_", " ")
    info: dict[str, Any] = {
        "name": f"projects/{project.number}/locations/global/services/{quota.service}/quotaInfos/{quota.id}",
        "quotaId": quota.id,
        "metric": quota.metric,
        "service": quota.service,
        "isPrecise": True,
        "containerType": "PROJECT",
        "metricDisplayName": words,
        "quotaDisplayName": f"{words} per project per region" if quota.dimensions else f"{words} per project",
        "metricUnit": "1",
        "quotaIncreaseEligibility": eligibility,
        "dimensionsInfos": _rows(quota, project, book),
        "serviceRequestQuotaUri": f"https://console.cloud.google.com/iam-admin/quotas?project={project.id}",
    }
    if quota.dimensions:
        info["dimensions"] = list(quota.dimensions)
    return info


def _rows(quota: Quota, project: Project, book: Quotas) -> list[dict[str, Any]]:
    if not quota.dimensions:
        limit = book.limit(key_of(quota, project, {}))
        return [{"details": _details(limit), "applicableLocations": [GLOBAL]}]
    granted = book.granted(project.id, quota.counted)
    rows: list[tuple[int, dict[str, Any]]] = []
    for key, limit in sorted(granted.items(), key=lambda pair: (pair[0].family, pair[0].region)):
        dimensions = {} if key.region == "*" else {"region": key.region}
        if key.family:
            dimensions["gpu_family"] = key.family
        if dimensions:
            rows.append((len(dimensions), _row(dimensions, limit, _places(key, granted))))
    rows.sort(key=lambda pair: -pair[0])
    rest = Key(project=project.id, metric=quota.counted, region="*")
    return [row for _, row in rows] + [_row({}, book.limit(rest), _places(rest, granted))]


def _row(dimensions: Mapping[str, str], limit: float, places: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"details": _details(limit), "applicableLocations": places}
    return {"dimensions": dict(dimensions), **row} if dimensions else row


def _places(key: Key, granted: Mapping[Key, float]) -> list[str]:
    """The regions a row speaks for: its own, or all that no more specific row of its family names."""
    if key.region != "*":
        return [key.region]
    taken = {other.region for other in granted if other.family == key.family}
    return [region for region in facts.regions() if region not in taken]


def _details(limit: float) -> dict[str, str]:
    """The value as proto3's JSON prints it: an int64 as a string, a zero not at all; -1 is unlimited."""
    if limit == 0:
        return {}
    return {"value": "-1" if limit == float("inf") else str(int(limit))}
