"""The handlers of the Cloud Billing catalog v1.

The address names no project: the API has to be on in the project that the caller names as payer
(``x-goog-user-project``), else in the first one. No permission is needed but to use that project.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from gputrain_emulator import world
from gputrain_emulator.call import Call
from gputrain_emulator.clock import parse_time, zulu_time
from gputrain_emulator.cloudbilling.skus import PriceList, money
from gputrain_emulator.errors import ApiError, Style, bad_request, error_info
from gputrain_emulator.routes import Service
from gputrain_emulator.shapes import integer

SERVICE = Service(name="cloudbilling", style=Style.PLATFORM)

MOST_PER_PAGE = 5000
_COMPUTE_ENGINE = "6F81-5844-456A"
_SERVICES = {
    "24E6-581D-38E5": "BigQuery",
    "5490-F7B7-8DF6": "Cloud Logging",
    "95FF-2EF5-5EA1": "Cloud Storage",
    _COMPUTE_ENGINE: "Compute Engine",
    "C7E2-9256-1C43": "Vertex AI",
}
_CURRENCIES = {"USD": Decimal(1), "EUR": Decimal("0.92"), "GBP": Decimal("0.79"), "JPY": Decimal("155.5")}
"""Conversion rates of this cloud."""
_PACIFIC = timezone(timedelta(hours=-8))
"""America/Los_Angeles without its summer: month ends lie an hour off there."""


@SERVICE.route(
    "GET",
    "/v1/services",
    "cloudbilling.services.list",
    permission="-",
    query=frozenset({"pageSize", "pageToken"}),
)
def list_services(call: Call) -> dict[str, Any]:
    """Every public service."""
    _payer(call)
    found = [
        {
            "name": f"services/{ident}",
            "serviceId": ident,
            "displayName": name,
            "businessEntityName": "businessEntities/GCP",
        }
        for ident, name in _SERVICES.items()
    ]
    return _page(call, "services", found)


@SERVICE.route(
    "GET",
    "/v1/services/{service}/skus",
    "cloudbilling.services.skus.list",
    permission="-",
    query=frozenset({"pageSize", "pageToken", "currencyCode", "startTime", "endTime"}),
)
def list_skus(call: Call) -> dict[str, Any]:
    """The SKUs of one service, priced as of now or of a time in one month."""
    _payer(call)
    if call.params["service"] not in _SERVICES:
        raise ApiError(404, "Requested entity was not found.")
    code = call.query.get("currencyCode") or "USD"
    if code not in _CURRENCIES:
        raise _invalid()
    effective = _effective(call)
    listed = call.world.part(PriceList).skus() if call.params["service"] == _COMPUTE_ENGINE else []
    answer = _page(call, "skus", listed)
    if "skus" in answer:
        answer["skus"] = [_priced(sku, code, effective) for sku in answer["skus"]]
    return answer


def _payer(call: Call) -> None:
    """Whose API is called: it has to be on, and ours to use."""
    named = call.headers.get("x-goog-user-project", "")
    project = call.world.find_project(named) if named else next(iter(call.world.projects.values()))
    if project is None or (named and not call.caller.may("serviceusage.services.use")):
        url = f"https://console.developers.google.com/iam-admin/iam/project?project={named}"
        message = (
            f"Caller does not have required permission to use project {named}. Grant the caller the "
            "roles/serviceusage.serviceUsageConsumer role, or a custom role with the "
            f"serviceusage.services.use permission, by visiting {url} and then retry. Propagation of the "
            "new permission may take a few minutes."
        )
        facts = {"service": "cloudbilling.googleapis.com", "consumer": f"projects/{named}"}
        raise ApiError(403, message, details=[error_info("USER_PROJECT_DENIED", "googleapis.com", **facts)])
    if "cloudbilling" not in project.apis:
        raise world.api_disabled("cloudbilling", project, Style.PLATFORM)


def _page(call: Call, name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    size = min(integer(call.query, "pageSize", 0), MOST_PER_PAGE) or MOST_PER_PAGE
    start = _start(call.query.get("pageToken", ""), name)
    following = start + size
    page = found[start:following]
    rest = _token(name, following) if following < len(found) else ""
    return {**({name: page} if page else {}), "nextPageToken": rest}  # empty at the end, and there


def _token(name: str, start: int) -> str:
    return base64.urlsafe_b64encode(f"{name}:{start}".encode()).decode()


def _start(token: str, name: str) -> int:
    if not token:
        return 0
    try:
        kind, _, start = base64.urlsafe_b64decode(token.encode()).decode().partition(":")
    except ValueError:
        raise _invalid() from None
    if kind != name or not re.fullmatch("[0-9]{1,9}", start):
        raise _invalid()
    return int(start)


def _effective(call: Call) -> float:
    """The time whose prices are asked for: the present one unless a range is given, within one month."""
    now = call.world.clock.now()
    start, end = _moment(call, "startTime", "start_time"), _moment(call, "endTime", "end_time")
    if start is None and end is None:
        return now
    last = now if end is None else end
    first = last if start is None else start
    months = {(at.year, at.month) for at in map(_pacific, (first, last - 1e-6))}
    if max(first, last) > now or first > last or len(months) > 1:
        raise _invalid()
    return first


def _moment(call: Call, name: str, field: str) -> float | None:
    text = call.query.get(name, "")
    try:
        return parse_time(text) if text else None
    except ValueError:
        kind = "type.googleapis.com/google.protobuf.Timestamp"
        raise bad_request([(field, f"Invalid value at '{field}' ({kind}), \"{text[:100]}\"")]) from None


def _pacific(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=_PACIFIC)


def _priced(sku: dict[str, Any], code: str, effective: float) -> dict[str, Any]:
    rate = _CURRENCIES[code]
    return {**sku, "pricingInfo": [_converted(info, code, rate, effective) for info in sku["pricingInfo"]]}


def _converted(info: dict[str, Any], code: str, rate: Decimal, effective: float) -> dict[str, Any]:
    expression = dict(info["pricingExpression"])
    if code != "USD":
        expression["tieredRates"] = [
            {**tier, "unitPrice": money(_amount(tier["unitPrice"]) * rate, code)}
            for tier in expression["tieredRates"]
        ]
    return {
        **info,
        "pricingExpression": expression,
        "currencyConversionRate": float(rate),
        "effectiveTime": zulu_time(effective),
    }


def _amount(price: dict[str, Any]) -> Decimal:
    return Decimal(price["units"]) + Decimal(price["nanos"]).scaleb(-9)


def _invalid() -> ApiError:
    """What the catalog says to an argument that it does not take."""
    return ApiError(400, "Request contains an invalid argument.")
