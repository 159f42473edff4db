"""The three lists that a refresh reads, each to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.gcp import Access, Api, Listing, Page, read_all
from gputrain.gcp.listing import PARTIAL_WARNINGS, left_out_of
from gputrain.retry import READ, retried

Json = Mapping[str, Any]

COMPUTE_ENGINE = "services/6F81-5844-456A"
"""Compute Engine's name in the Cloud Billing catalog. Source: read 2026-11-20."""

_MACHINE = "name,zone,guestCpus,memoryMb,accelerators,deprecated"
_SKU = "description,category(usageType),serviceRegions,pricingInfo(pricingExpression(usageUnit,tieredRates))"


def machine_types(access: Access) -> Listing[Json]:
    """Every machine type of every zone."""
    return _aggregated(access, "machineTypes", _MACHINE)


def accelerator_types(access: Access) -> Listing[Json]:
    """Every accelerator type of every zone."""
    return _aggregated(access, "acceleratorTypes", "name,zone,deprecated")


def skus(access: Access) -> Listing[Json]:
    """Every SKU of Compute Engine with its price in US dollars."""
    url = f"{access.url(Api.CLOUDBILLING)}/v1/{COMPUTE_ENGINE}/skus"
    asked = {"pageSize": "5000", "currencyCode": "USD", "fields": f"skus({_SKU}),nextPageToken"}
    payer = {"x-goog-user-project": access.project}  # whose API has to be on: the address names no project

    def page(token: str) -> Page[Json]:
        body = _get(access, url, "read the price list", {**asked, "pageToken": token}, payer)
        return Page(items=tuple(body.get("skus") or ()), next_token=str(body.get("nextPageToken") or ""))

    return read_all(page)


def _aggregated(access: Access, collection: str, fields: str) -> Listing[Json]:
    url = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{access.project}/aggregated/{collection}"
    wanted = f"items/*/{collection}({fields}),items/*/warning/code,nextPageToken,unreachables,warning/code"
    asked = {"maxResults": "500", "fields": wanted}

    def page(token: str) -> Page[Json]:
        body = _get(access, url, f"list the {collection}", {**asked, "pageToken": token})
        scopes = body.get("items") or {}
        items = [one for scope in scopes.values() for one in scope.get(collection) or ()]
        unread = [
            name.rpartition("/")[2]
            for name, scope in scopes.items()
            if (scope.get("warning") or {}).get("code") in PARTIAL_WARNINGS
        ]
        unread += [str(place).rpartition("/")[2] for place in body.get("unreachables") or ()]
        unread += left_out_of(body) if not unread else ()
        return Page(
            items=tuple(items),
            next_token=str(body.get("nextPageToken") or ""),
            left_out=tuple(unread),
        )

    return read_all(page)


def _get(
    access: Access, url: str, action: str, params: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> Json:
    sent = {name: value for name, value in params.items() if value}
    return retried(
        lambda: access.rest_json("GET", url, action=action, params=sent, headers=headers),
        policy=READ,
        sleep=access.sleep,
        now=access.now,
    )
