"""The handlers of the Cloud Billing catalog v1.

The address names no project: the API has to be on in the project that the caller names as payer
(``x-goog-user-project``), else in the first one. No permission is needed but to use that project.
"""

from __future__ import annotations

from typing import Any

from gputrain_emulator import world
from gputrain_emulator.call import Call, numbered
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.cloudbilling.skus import PriceList
from gputrain_emulator.errors import ApiError, Style, error_info
from gputrain_emulator.routes import Service

SERVICE = Service(name="cloudbilling", style=Style.PLATFORM, is_tabled=True)

MOST_PER_PAGE = 5000
_COMPUTE_ENGINE = "6F81-5844-456A"


@SERVICE.method("cloudbilling.services.skus.list", permission="-")
def list_skus(call: Call) -> dict[str, Any]:
    """The SKUs of one service, priced as of now."""
    _payer(call)
    if call.params["service"] != _COMPUTE_ENGINE:
        raise ApiError(404, "Requested entity was not found.")
    if call.query.get("currencyCode", "USD") not in ("", "USD"):
        raise ApiError(501, "The emulator lists prices in US dollars (currencyCode=USD) only.")
    if call.query.get("startTime") or call.query.get("endTime"):
        raise ApiError(501, "The emulator lists the prices of now, without startTime and endTime.")
    now = {"currencyConversionRate": 1, "effectiveTime": zulu_time(call.world.clock.now())}
    listed = call.world.part(PriceList).skus()
    page = numbered(call, "skus", listed, default=MOST_PER_PAGE, most=MOST_PER_PAGE)
    skus = [
        {**sku, "pricingInfo": [{**info, **now} for info in sku["pricingInfo"]]}
        for sku in page.get("skus", ())
    ]
    return {"nextPageToken": "", **page, "skus": skus}  # empty at the end, and there


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
