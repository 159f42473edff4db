"""The handlers of Cloud Quotas v1; v1beta paths, which gcloud sends, are answered alike."""

from __future__ import annotations

import uuid
from typing import Any

from gputrain_emulator import messages
from gputrain_emulator.call import Call, numbered
from gputrain_emulator.cloudquotas.infos import Quota, quota_info, quotas
from gputrain_emulator.cloudquotas.preferences import Preferences
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.quotas import Quotas
from gputrain_emulator.routes import Handler, Service

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
