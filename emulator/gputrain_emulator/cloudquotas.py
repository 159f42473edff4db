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
from gputrain_emulator.quotas import FAMILY_METRIC, GLOBAL, REGIONAL_METRICS, Key, Quotas
from gputrain_emulator.routes import Handler, Service
from gputrain_emulator.world import Project, World

Json = dict[str, Any]
COMPUTE = "compute.googleapis.com"
VERTEX = "aiplatform.googleapis.com"
UNLIMITED = float("inf")

_REVIEW_S = 60.0  # how long Google takes to decide here
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")


@dataclass(frozen=True)
class Quota:
    """One quota: its public names, and the metric under which the quota book counts it."""

    service: str
    id: str
    counted: str
    dimensions: tuple[str, ...] = ("region",)

    @property
    def metric(self) -> str:
        return self.counted if "/" in self.counted else f"{self.service}/{self.counted.lower()}"

    def key(self, project: Project, dimensions: Mapping[str, str]) -> Key:
        """Where the quota book keeps the limit of these dimensions."""
        region = dimensions.get("region", "*") if "region" in self.dimensions else GLOBAL
        family = dimensions.get("gpu_family", "")
        return Key(project=project.id, metric=self.counted, region=region, family=family)


@functools.cache
def quotas() -> Mapping[tuple[str, str], Quota]:
    """All quotas by (service, id)."""
    found = [Quota(COMPUTE, f"{kind}-ALL-REGIONS-per-project", f"{kind}_ALL_REGIONS", ()) for kind in ("GPUS", "CPUS")]  # fmt: skip  # noqa: E501
    regional = {f"{metric.replace('_', '-')}-per-project-region": metric for metric in REGIONAL_METRICS}
    found += [Quota(COMPUTE, ident, metric) for ident, metric in regional.items()]
    found.append(
        Quota(COMPUTE, "GPUS-PER-GPU-FAMILY-per-project-region", FAMILY_METRIC, ("region", "gpu_family"))
    )
    for word in ("", "Preemptible", "N2", "N4", "C2", "M1", "G2", "A2", "A3"):
        metric = f"{VERTEX}/custom_model_training_{word.lower()}_cpus".replace("training__", "training_")
        found.append(Quota(VERTEX, f"CustomModelTraining{word}CPUsPerProjectPerRegion", metric))
    for row in facts.gpu_quotas().values():
        named = (
            (COMPUTE, row.regional_metric and row.quota_id, row.regional_metric),
            (COMPUTE, row.preemptible_quota_id, row.preemptible_metric),
            (VERTEX, row.vertex_quota_id, row.vertex_metric),
            (VERTEX, row.vertex_preemptible_quota_id, row.vertex_preemptible_metric),
        )
        found += [Quota(*one) for one in named if one[1]]
    return {(quota.service, quota.id): quota for quota in found}


def quota_info(quota: Quota, project: Project, book: Quotas, ineligible: str) -> Json:
    """The QuotaInfo resource, its rows from the most specific to the least."""
    words = quota.metric.partition("/")[2].replace("_", " ")
    info: Json = {
        "name": f"projects/{project.number}/locations/global/services/{quota.service}/quotaInfos/{quota.id}",
        "quotaId": quota.id,
        "metric": quota.metric,
        "service": quota.service,
        "isPrecise": True,
        "containerType": "PROJECT",
        "metricDisplayName": words,
        "quotaDisplayName": f"{words} per project per region" if quota.dimensions else f"{words} per project",
        "metricUnit": "1",
        "quotaIncreaseEligibility": {"ineligibilityReason": ineligible}
        if ineligible
        else {"isEligible": True},
        "dimensionsInfos": _rows(quota, project, book),
        "serviceRequestQuotaUri": f"https://console.cloud.google.com/iam-admin/quotas?project={project.id}",
    }
    return {**info, "dimensions": list(quota.dimensions)} if quota.dimensions else info


def _rows(quota: Quota, project: Project, book: Quotas) -> list[Json]:
    if not quota.dimensions:
        return [_row({}, book.limit(quota.key(project, {})), [GLOBAL])]
    granted = book.granted(project.id, quota.counted)
    found = []
    for key in sorted(granted, key=lambda key: (key.family, key.region)):
        dimensions = {"region": key.region, "gpu_family": key.family}
        dimensions = {name: value for name, value in dimensions.items() if value not in ("*", "")}
        if dimensions:
            found.append(_row(dimensions, granted[key], _places(key, granted)))
    found.sort(key=lambda row: -len(row["dimensions"]))
    rest = quota.key(project, {})
    return [*found, _row({}, book.limit(rest), _places(rest, granted))]


def _row(dimensions: Mapping[str, str], limit: float, places: list[str]) -> Json:
    """The value as proto3's JSON prints it: an int64 as a string, a zero not at all; -1 is unlimited."""
    details = {"value": "-1" if limit == UNLIMITED else str(int(limit))} if limit else {}
    row = {"details": details, "applicableLocations": places}
    return {"dimensions": dict(dimensions), **row} if dimensions else row


def _places(key: Key, granted: Mapping[Key, float]) -> list[str]:
    """The regions a row speaks for: its own, or all that no more specific row of its family names."""
    if key.region != "*":
        return [key.region]
    taken = {other.region for other in granted if other.family == key.family}
    return [region for region in facts.regions() if region not in taken]


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
        self.kept: dict[str, Json] = {}

    def put(self, project: Project, name: str, wish: Json) -> Json:
        """Create or change a preference."""
        quota, dimensions = self._checked(project, name, wish), dict(wish.get("dimensions", {}))
        now, wanted = zulu_time(self.world.clock.now()), int(wish["quotaConfig"]["preferredValue"])
        here = self.world.part(Quotas).limit(quota.key(project, dimensions))
        config = {
            "preferredValue": str(wanted),
            "grantedValue": str(int(here)) if here != UNLIMITED else "-1",
            "stateDetail": "The request is being reviewed.",
            "traceId": uuid.uuid4().hex,
            **{key: value for key, value in wish["quotaConfig"].items() if key == "annotations"},
        }
        self.kept[name] = kept = {
            "name": name,
            **({"dimensions": dimensions} if dimensions else {}),
            "quotaConfig": config,
            "etag": uuid.uuid4().hex[:12],
            "createTime": self.kept[name]["createTime"] if name in self.kept else now,
            "updateTime": now,
            "service": quota.service,
            "quotaId": quota.id,
            "reconciling": True,
            **{key: wish[key] for key in ("justification",) if key in wish},
        }
        self.world.ledger.write("quota", name, detail=f"{quota.id} {dimensions} -> {wanted}")
        key = quota.key(project, dimensions)
        self.world.clock.after(_REVIEW_S, lambda: self._decide(key, wanted, kept))
        return kept

    def _decide(self, key: Key, wanted: int, kept: Json) -> None:
        if self.kept.get(kept["name"]) is not kept:
            return  # a later wish has taken its place
        book, value = self.world.part(Quotas), UNLIMITED if wanted == -1 else float(wanted)
        if self.grant_up_to is not None:
            value = min(value, max(float(self.grant_up_to), min(book.limit(key), value)))
        book.set_limit(key, value)
        granted = -1 if value == UNLIMITED else int(value)
        detail = "The quota preference is fulfilled." if granted == wanted else "The request was approved in part."  # fmt: skip  # noqa: E501
        kept["quotaConfig"].update(grantedValue=str(granted), stateDetail=detail)
        del kept["reconciling"]
        kept["updateTime"] = zulu_time(self.world.clock.now())

    def _checked(self, project: Project, name: str, wish: Json) -> Quota:
        """The quota that is meant; raises ApiError for a wish that Google does not take."""
        config, dimensions = wish.get("quotaConfig", {}), dict(wish.get("dimensions", {}))
        if not wish.get("service") or not wish.get("quotaId") or "preferredValue" not in config:
            raise bad_request([("quota_preference", "service, quota_id and preferred_value are required.")])
        quota, wanted = quotas().get((wish["service"], wish["quotaId"])), int(config["preferredValue"])
        if quota is None:
            raise ApiError(404, f"Quota {wish['quotaId']} of service {wish['service']} is not found.")
        if wanted < -1:
            raise bad_request([("quota_preference.quota_config.preferred_value", "Must be at least -1.")])
        families = {row.gpu_family for row in facts.gpu_quotas().values() if row.gpu_family}
        known = {"region": set(facts.regions()), "gpu_family": families}
        for axis, value in dimensions.items():
            if axis not in quota.dimensions:
                raise ApiError(400, f"Quota {quota.id} has no dimension {axis}.")
            if value not in known[axis]:
                raise ApiError(400, f"Dimension {axis} of quota {quota.id} has no value {value}.")
        meant = (quota.service, quota.id, dimensions)
        for other, kept in self.kept.items():
            same = (kept["service"], kept["quotaId"], kept.get("dimensions", {})) == meant
            if other == name and not same:
                raise ApiError(400, "The dimensions and the quota of a preference cannot be changed.")
            if other != name and same and other.startswith(f"projects/{project.number}/"):
                raise ApiError(409, f"Quota preference {other} exists for the same quota and dimensions.")
        self._check_value(quota, wanted, self.world.part(Quotas).limit(quota.key(project, dimensions)), wish)
        return quota

    def _check_value(self, quota: Quota, wanted: int, limit: float, wish: Json) -> None:
        if wanted != -1 and wanted < limit:
            raise ApiError.unimplemented("cloudquotas.quotaPreferences.patch to a lower value")
        if quota.id in self.ineligible:
            message = f"The quota cannot be increased: {self.ineligible[quota.id]}."
            raise ApiError(400, message, canonical="FAILED_PRECONDITION")
        if wanted != limit and not _EMAIL.fullmatch(wish.get("contactEmail", "")):
            why = "Required for a quota increase, an e-mail address."
            raise bad_request([("quota_preference.contact_email", why)])


SERVICE = Service(name="cloudquotas", style=Style.PLATFORM)
SERVICES = (SERVICE,)

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


def _list_infos(call: Call) -> Json:
    found = [quota for quota in quotas().values() if quota.service == call.params["service"]]
    if not found:
        raise ApiError(404, f"Service {call.params['service']} is not found.")
    page = numbered(call, "quotaInfos", found, default=200, most=1000)
    return {**page, "quotaInfos": [_info(call, quota) for quota in page.get("quotaInfos", ())]}


def _get_info(call: Call) -> Json:
    quota = quotas().get((call.params["service"], call.params["quota"]))
    if quota is None:
        raise ApiError(404, f"Quota {call.params['quota']} is not found.")
    return _info(call, quota)


def _list(call: Call) -> Json:
    kept = call.world.part(Preferences).kept
    found = [one for name, one in kept.items() if name.startswith(f"projects/{call.owner.number}/")]
    return numbered(call, "quotaPreferences", found, default=200, most=1000)


def _name(call: Call) -> str:
    return f"projects/{call.owner.number}/locations/global/quotaPreferences/{call.params['preference']}"


def _get(call: Call) -> Json:
    found = call.world.part(Preferences).kept.get(_name(call))
    if found is None:
        raise ApiError(404, f"Resource '{_name(call)}' was not found")
    return found


def _patch(call: Call) -> Json:
    wish, preferences, name = dict(call.body), call.world.part(Preferences), _name(call)
    old = preferences.kept.get(name)
    if old is None and not call.query.get("allowMissing"):
        raise ApiError(404, f"Resource '{name}' was not found")
    if old is not None:
        if wish.get("etag") and wish["etag"] != old["etag"]:
            raise ApiError(409, "The etag does not match.", canonical="ABORTED")
        kept = ("dimensions", "service", "quotaId", "quotaConfig", "justification")
        wish = {**{key: old[key] for key in kept if key in old}, **wish}
    return preferences.put(call.owner, name, wish)


def _info(call: Call, quota: Quota) -> Json:
    ineligible = call.world.part(Preferences).ineligible.get(quota.id, "")
    return quota_info(quota, call.owner, call.world.part(Quotas), ineligible)


_PAGED = "page_size:int32 page_token:string"
# verb, path below the place, method id, permission, query parameters, handler
_ROUTES: tuple[tuple[str, str, str, str, str, Handler], ...] = (
    ("GET", "services/{service}/quotaInfos", "quotaInfos.list", "quotas.get", _PAGED, _list_infos),
    ("GET", "services/{service}/quotaInfos/{quota}", "quotaInfos.get", "quotas.get", "", _get_info),
    ("GET", "quotaPreferences", "quotaPreferences.list", "quotas.get", _PAGED, _list),
    ("GET", "quotaPreferences/{preference}", "quotaPreferences.get", "quotas.get", "", _get),
    ("PATCH", "quotaPreferences/{preference}", "quotaPreferences.patch", "quotas.update",
     "update_mask:string allow_missing:bool", _patch),
)  # fmt: skip

for _verb, _path, _id, _permission, _query, _handler in _ROUTES:
    for _version, _suffix in (("v1", ""), ("v1beta", ".v1beta")):
        SERVICE.route(
            _verb,
            f"/{_version}/projects/{{project}}/locations/global/{_path}",
            f"cloudquotas.{_id}{_suffix}",
            permission=f"cloudquotas.{_permission}",
            query=_query,
            body="" if _verb == "GET" else _WISH,
        )(_handler)
