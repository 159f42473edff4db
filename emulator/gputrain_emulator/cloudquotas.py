"""Cloud Quotas v1, and v1beta as gcloud sends it: the limits in effect, and preferences for other ones.

Ids and metrics: facts.gpu_quotas; CPU ids from live reads of public repositories (read 2026-11-20), the
plain Vertex AI one inferred from its preemptible sibling.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputrain_emulator import facts, messages
from gputrain_emulator.call import Call, numbered
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.quotas import FAMILY_METRIC, GLOBAL, Key, Quotas
from gputrain_emulator.routes import Handler, Service
from gputrain_emulator.world import Project, World

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


_MAX_DECREASE = 0.10
_REVIEW_S = 60.0  # how long Google takes to decide here

UNLIMITED = float("inf")

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


class Preferences:
    """All preferences of all projects.

    Attributes:
        grant_up_to: no more than this is granted; None grants what is asked.
        ineligible: why a quota id cannot be raised (`NOT_ENOUGH_USAGE_HISTORY`, ...).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.grant_up_to: int | None = None
        self.ineligible: dict[str, str] = {}
        self.kept: dict[str, dict[str, Any]] = {}

    def put(self, project: Project, name: str, wish: Mapping[str, Any]) -> dict[str, Any]:
        """Create or change a preference."""
        old = self.kept.get(name)
        quota = self._quota(wish)
        dimensions = dict(wish.get("dimensions", {}))
        self._check(project, name, wish, quota)
        now = zulu_time(self.world.clock.now())
        wanted = int(wish["quotaConfig"]["preferredValue"])
        book = self.world.part(Quotas)
        here = book.limit(key_of(quota, project, dimensions))
        kept = {
            "name": name,
            **({"dimensions": dimensions} if dimensions else {}),
            "quotaConfig": {
                "preferredValue": str(wanted),
                "grantedValue": str(int(here)) if here != UNLIMITED else "-1",
                "stateDetail": "The request is being reviewed.",
                **({"traceId": uuid.uuid4().hex} if wanted == -1 or wanted > here else {}),
                **{key: wish["quotaConfig"][key] for key in ("annotations",) if key in wish["quotaConfig"]},
            },
            "etag": uuid.uuid4().hex[:12],
            "createTime": old["createTime"] if old else now,
            "updateTime": now,
            "service": quota.service,
            "quotaId": quota.id,
            "reconciling": True,
            **{key: wish[key] for key in ("justification",) if key in wish},
        }
        self.kept[name] = kept
        self.world.ledger.write("quota", name, detail=f"{quota.id} {dimensions} -> {wanted}")
        self.world.clock.after(_REVIEW_S, lambda: self._decide(project, kept))
        return kept

    def _decide(self, project: Project, kept: dict[str, Any]) -> None:
        if self.kept.get(kept["name"]) is not kept:
            return  # a later wish has taken its place
        config = kept["quotaConfig"]
        wanted = int(config["preferredValue"])
        key = key_of(quotas()[kept["service"], kept["quotaId"]], project, kept.get("dimensions", {}))
        book = self.world.part(Quotas)
        value = UNLIMITED if wanted == -1 else float(wanted)
        if self.grant_up_to is not None:
            value = min(value, max(float(self.grant_up_to), min(book.limit(key), value)))
        book.set_limit(key, value)
        granted = -1 if value == UNLIMITED else int(value)
        config["grantedValue"] = str(granted)
        config["stateDetail"] = (
            "The quota preference is fulfilled." if granted == wanted else "The request was approved in part."
        )
        del kept["reconciling"]
        kept["updateTime"] = zulu_time(self.world.clock.now())

    def _quota(self, wish: Mapping[str, Any]) -> Quota:
        missing = [name for name in ("service", "quotaId") if not wish.get(name)]
        if missing or "preferredValue" not in wish.get("quotaConfig", {}):
            raise bad_request([("quota_preference", "service, quota_id and preferred_value are required.")])
        quota = quotas().get((wish["service"], wish["quotaId"]))
        if quota is None:
            raise ApiError(404, f"Quota {wish['quotaId']} of service {wish['service']} is not found.")
        return quota

    def _check(self, project: Project, name: str, wish: Mapping[str, Any], quota: Quota) -> None:
        dimensions, wanted = dict(wish.get("dimensions", {})), int(wish["quotaConfig"]["preferredValue"])
        if wanted < -1:
            raise bad_request([("quota_preference.quota_config.preferred_value", "Must be at least -1.")])
        unknown = sorted(set(dimensions) - set(quota.dimensions))
        if unknown:
            raise ApiError(400, f"Quota {quota.id} has no dimension {', '.join(unknown)}.")
        families = {row.gpu_family for row in facts.gpu_quotas().values() if row.gpu_family}
        for axis, known in (("region", set(facts.regions())), ("gpu_family", families)):
            if axis in dimensions and dimensions[axis] not in known:
                raise ApiError(400, f"Dimension {axis} of quota {quota.id} has no value {dimensions[axis]}.")
        for other, kept in self.kept.items():
            same = (kept["service"], kept["quotaId"], kept.get("dimensions", {})) == (
                quota.service,
                quota.id,
                dimensions,
            )
            if other != name and same and other.startswith(f"projects/{project.number}/"):
                raise ApiError(409, f"Quota preference {other} exists for the same quota and dimensions.")
        old = self.kept.get(name)
        if old is not None and (old.get("dimensions", {}), old["quotaId"]) != (dimensions, quota.id):
            raise ApiError(400, "The dimensions and the quota of a preference cannot be changed.")
        self._check_direction(project, quota, dimensions, wish)

    def _check_direction(
        self, project: Project, quota: Quota, dimensions: Mapping[str, str], wish: Mapping[str, Any]
    ) -> None:
        book, key = self.world.part(Quotas), key_of(quota, project, dimensions)
        here, wanted = book.limit(key), int(wish["quotaConfig"]["preferredValue"])
        if wanted == -1 or wanted > here:
            if quota.id in self.ineligible:
                raise _precondition(f"The quota cannot be increased: {self.ineligible[quota.id]}.")
            if not _EMAIL.fullmatch(wish.get("contactEmail", "")):
                raise bad_request(
                    [("quota_preference.contact_email", "Required for a quota increase, an e-mail address.")]
                )
        elif wanted < book.usage(key):
            raise _precondition(f"QUOTA_DECREASE_BELOW_USAGE: the usage is {book.usage(key):g}.")
        elif wanted < here * (1 - _MAX_DECREASE):
            raise _precondition("QUOTA_DECREASE_PERCENTAGE_TOO_HIGH: the decrease is more than 10%.")


def _precondition(message: str) -> ApiError:
    return ApiError(400, message, canonical="FAILED_PRECONDITION")


SERVICE = Service(name="cloudquotas", style=Style.PLATFORM)

_PLACE = "projects/{project}/locations/{location}"
_WISH = messages.declare(
    "cloudquotas.QuotaPreference",
    """name:string dimensions:map@cloudquotas.Entry quota_config:message@cloudquotas.QuotaConfig etag:string
    create_time:message@google.protobuf.Timestamp update_time:message@google.protobuf.Timestamp
    service:string quota_id:string reconciling:bool justification:string contact_email:string""",
)
messages.declare(
    "cloudquotas.QuotaConfig",
    """preferred_value:int64 state_detail:string granted_value:int64 trace_id:string
    annotations:map@cloudquotas.Entry request_origin:string""",
)
messages.declare("cloudquotas.Entry", "key:string value:string")


def _list_infos(call: Call) -> dict[str, Any]:
    host = _service(call)
    found = [quota for quota in quotas().values() if quota.service == host]
    page = numbered(call, "quotaInfos", found, default=200, most=1000)
    page["quotaInfos"] = [_info(call, quota) for quota in page.get("quotaInfos", ())]
    return page


def _get_info(call: Call) -> dict[str, Any]:
    quota = quotas().get((_service(call), call.params["quota"]))
    if quota is None:
        raise ApiError(404, f"Quota {call.params['quota']} is not found.")
    return _info(call, quota)


def _create(call: Call) -> dict[str, Any]:
    _global(call)
    wish = dict(call.body)
    ident = call.query.get("quotaPreferenceId") or uuid.uuid4().hex
    name = f"projects/{call.owner.number}/locations/global/quotaPreferences/{ident}"
    preferences = call.world.part(Preferences)
    if name in preferences.kept:
        raise ApiError(409, f"Resource '{name}' already exists")
    return preferences.put(call.owner, name, wish)


def _get(call: Call) -> dict[str, Any]:
    return _kept(call)


def _list(call: Call) -> dict[str, Any]:
    _global(call)
    prefix = f"projects/{call.owner.number}/"
    kept = call.world.part(Preferences).kept
    found = [one for name, one in kept.items() if name.startswith(prefix)]
    return numbered(call, "quotaPreferences", found, default=200, most=1000)


def _patch(call: Call) -> dict[str, Any]:
    _global(call)
    wish = dict(call.body)
    name = _name(call)
    preferences = call.world.part(Preferences)
    old = preferences.kept.get(name)
    if old is None and not call.query.get("allowMissing"):
        raise ApiError(404, f"Resource '{name}' was not found")
    if old is not None:
        if wish.get("etag") and wish["etag"] != old["etag"]:
            raise ApiError(409, "The etag does not match.", canonical="ABORTED")
        kept = ("dimensions", "service", "quotaId", "quotaConfig", "justification")
        wish = {**{key: old[key] for key in kept if key in old}, **wish}
    return preferences.put(call.owner, name, wish)


_PAGED = "page_size:int32 page_token:string"
# verb, path below the place, method id, permission, query parameters, handler
_ROUTES: tuple[tuple[str, str, str, str, str, Handler], ...] = (
    ("GET", "services/{service}/quotaInfos", "quotaInfos.list", "quotas.get", _PAGED, _list_infos),
    ("GET", "services/{service}/quotaInfos/{quota}", "quotaInfos.get", "quotas.get", "", _get_info),
    ("POST", "quotaPreferences", "quotaPreferences.create", "quotas.update",
     "quota_preference_id:string", _create),
    ("GET", "quotaPreferences", "quotaPreferences.list", "quotas.get",
     _PAGED, _list),
    ("GET", "quotaPreferences/{preference}", "quotaPreferences.get", "quotas.get", "", _get),
    ("PATCH", "quotaPreferences/{preference}", "quotaPreferences.patch", "quotas.update",
     "update_mask:string allow_missing:bool", _patch),
)  # fmt: skip


for _verb, _path, _id, _permission, _query, _handler in _ROUTES:
    for _version in ("v1", "v1beta"):
        SERVICE.route(
            _verb,
            f"/{_version}/{_PLACE}/{_path}",
            f"cloudquotas.{_id}" + ("" if _version == "v1" else ".v1beta"),
            permission=f"cloudquotas.{_permission}",
            query=_query,
            body="" if _verb == "GET" else _WISH,
        )(_handler)


def _info(call: Call, quota: Quota) -> dict[str, Any]:
    ineligible = call.world.part(Preferences).ineligible.get(quota.id, "")
    return quota_info(quota, call.owner, call.world.part(Quotas), ineligible)


def _kept(call: Call) -> dict[str, Any]:
    _global(call)
    found = call.world.part(Preferences).kept.get(_name(call))
    if found is None:
        asked = call.path.partition("/projects/")[2]
        raise ApiError(404, f"Resource 'projects/{asked}' was not found")
    return found


def _name(call: Call) -> str:
    return f"projects/{call.owner.number}/locations/global/quotaPreferences/{call.params['preference']}"


def _service(call: Call) -> str:
    _global(call)
    host = call.params["service"]
    if not any(service == host for service, _ in quotas()):
        raise ApiError(404, f"Service {host} is not found.")
    return host


def _global(call: Call) -> None:
    if call.params["location"] != "global":
        raise ApiError(400, f"Location {call.params['location']} is not supported; it must be global.")


__all__ = ["SERVICES", "Preferences"]

SERVICES = (SERVICE,)
