"""The handlers of Cloud Quotas v1; v1beta paths, which gcloud sends, are answered alike."""

from __future__ import annotations

import uuid
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.cloudquotas.infos import Quota, quota_info, quotas
from gputrain_emulator.cloudquotas.preferences import SAFETY_CHECKS, Preferences
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.query import Comparison, FilterError, Leaf, holds, leaves, parse
from gputrain_emulator.quotas import Quotas
from gputrain_emulator.routes import Handler, Service
from gputrain_emulator.shapes import INT64, Map, Time, integer, read

SERVICE = Service(name="cloudquotas", style=Style.PLATFORM)

_PLACE = "projects/{project}/locations/{location}"
_WISH = {
    "name": str,
    "dimensions": Map(str),
    "quotaConfig": {
        "preferredValue": INT64,
        "stateDetail": str,
        "grantedValue": INT64,
        "traceId": str,
        "annotations": Map(str),
        "requestOrigin": str,
    },
    "etag": str,
    "createTime": Time,
    "updateTime": Time,
    "service": str,
    "quotaId": str,
    "reconciling": bool,
    "justification": str,
    "contactEmail": str,
}


def _list_infos(call: Call) -> dict[str, Any]:
    host = _service(call)
    found = [quota for quota in quotas().values() if quota.service == host]
    start = integer({"t": call.query.get("pageToken", "")}, "t", 0)
    size = min(integer(call.query, "pageSize", 0) or 200, 1000)
    infos = [_info(call, quota) for quota in found[start : start + size]]
    rest = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
    return {**({"quotaInfos": infos} if infos else {}), **rest}


def _get_info(call: Call) -> dict[str, Any]:
    quota = quotas().get((_service(call), call.params["quota"]))
    if quota is None:
        raise ApiError(404, f"Quota {call.params['quota']} is not found.")
    return _info(call, quota)


def _create(call: Call) -> dict[str, Any]:
    _global(call)
    wish = read(_WISH, call.raw_body)
    ident = call.query.get("quotaPreferenceId") or uuid.uuid4().hex
    name = f"projects/{call.owner.number}/locations/global/quotaPreferences/{ident}"
    preferences = call.world.part(Preferences)
    if name in preferences.kept:
        raise ApiError(409, f"Resource '{name}' already exists")
    return preferences.put(call.owner, name, wish, ignored=_ignored(call), write=True)


def _get(call: Call) -> dict[str, Any]:
    return _kept(call)


def _list(call: Call) -> dict[str, Any]:
    _global(call)
    wanted = _filter(call.query.get("filter", ""))
    prefix = f"projects/{call.owner.number}/"
    kept = call.world.part(Preferences).kept
    found = [one for name, one in kept.items() if name.startswith(prefix) and wanted(one)]
    start = integer({"t": call.query.get("pageToken", "")}, "t", 0)
    size = min(integer(call.query, "pageSize", 0) or 200, 1000)
    rest = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
    page = found[start : start + size]
    return {**({"quotaPreferences": page} if page else {}), **rest}


def _patch(call: Call) -> dict[str, Any]:
    _global(call)
    wish = read(_WISH, call.raw_body)
    name = _name(call)
    preferences = call.world.part(Preferences)
    old = preferences.kept.get(name)
    if old is None and call.query.get("allowMissing") != "true":
        raise ApiError(404, f"Resource '{name}' was not found")
    if old is not None:
        if wish.get("etag") and wish["etag"] != old["etag"]:
            raise ApiError(409, "The etag does not match.", canonical="ABORTED")
        kept = ("dimensions", "service", "quotaId", "quotaConfig", "justification")
        wish = {**{key: old[key] for key in kept if key in old}, **wish}
    write = call.query.get("validateOnly") != "true"
    return preferences.put(call.owner, name, wish, ignored=_ignored(call), write=write)


_PAGED = frozenset({"pageSize", "pageToken"})
_CHECKS = frozenset({"ignoreSafetyChecks"})
# verb, path below the place, method id, permission, query parameters, handler
_ROUTES: tuple[tuple[str, str, str, str, frozenset[str], Handler], ...] = (
    ("GET", "services/{service}/quotaInfos", "quotaInfos.list", "quotas.get", _PAGED, _list_infos),
    ("GET", "services/{service}/quotaInfos/{quota}", "quotaInfos.get", "quotas.get", frozenset(), _get_info),
    ("POST", "quotaPreferences", "quotaPreferences.create", "quotas.update",
     _CHECKS | {"quotaPreferenceId"}, _create),
    ("GET", "quotaPreferences", "quotaPreferences.list", "quotas.get",
     _PAGED | {"filter", "orderBy"}, _list),
    ("GET", "quotaPreferences/{preference}", "quotaPreferences.get", "quotas.get", frozenset(), _get),
    ("PATCH", "quotaPreferences/{preference}", "quotaPreferences.patch", "quotas.update",
     _CHECKS | {"updateMask", "allowMissing", "validateOnly"}, _patch),
)  # fmt: skip


for _verb, _path, _id, _permission, _query, _handler in _ROUTES:
    for _version in ("v1", "v1beta"):
        SERVICE.route(
            _verb,
            f"/{_version}/{_PLACE}/{_path}",
            f"cloudquotas.{_id}" + ("" if _version == "v1" else ".v1beta"),
            permission=f"cloudquotas.{_permission}",
            query=_query,
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


def _ignored(call: Call) -> tuple[str, ...]:
    asked = tuple(call.query_all.get("ignoreSafetyChecks", []))
    numbers = {str(at): name for at, name in enumerate(SAFETY_CHECKS, 1)}
    named = tuple(numbers.get(one, one) for one in asked)
    for one in named:
        if one not in SAFETY_CHECKS:
            raise bad_request([("ignore_safety_checks", f"Invalid value: {one}")])
    return named


def _filter(text: str) -> Any:
    try:
        tree = parse(text)
    except FilterError as error:
        raise ApiError(400, f"Invalid filter: {error}") from None
    names = {"reconciling": "reconciling", "quota_id": "quotaId", "quotaId": "quotaId", "service": "service"}
    for leaf in leaves(tree):
        if not isinstance(leaf, Comparison) or leaf.path[0] not in names or leaf.operator not in ("=", "!="):
            raise ApiError(400, f"Invalid filter: {text}")

    def test(leaf: Leaf, kept: dict[str, Any]) -> bool:
        assert isinstance(leaf, Comparison)
        value = kept.get(names[leaf.path[0]], False)
        shown = str(value).lower() if isinstance(value, bool) else value
        return (shown == leaf.value) is (leaf.operator == "=")

    return lambda kept: holds(tree, lambda leaf: test(leaf, kept))
