"""The three lists that a refresh reads, each to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.gcp import Access, Api, Listing
from gputrain.gcp.places import aggregated
from gputrain.retry import READ

Json = Mapping[str, Any]

COMPUTE_ENGINE = "services/6F81-5844-456A"
"""Compute Engine's name in the Cloud Billing catalog. Source: read 2026-11-20."""

_MACHINE = "name,zone,guestCpus,memoryMb,accelerators,deprecated"
_SKU = "description,category(usageType),serviceRegions,pricingInfo(pricingExpression(usageUnit,tieredRates))"


def machine_types(access: Access) -> Listing[Json]:
    """Every machine type of every zone."""
    return aggregated(access, "machineTypes", fields=_MACHINE, policy=READ).listing


def accelerator_types(access: Access) -> Listing[Json]:
    """Every accelerator type of every zone."""
    return aggregated(access, "acceleratorTypes", fields="name,zone,deprecated", policy=READ).listing


def skus(access: Access) -> Listing[Json]:
    """Every SKU of Compute Engine with its price in US dollars."""
    return access.pages(
        f"{access.url(Api.CLOUDBILLING)}/v1/{COMPUTE_ENGINE}/skus",
        action="read the price list",
        items="skus",
        params={"pageSize": "5000", "currencyCode": "USD", "fields": f"skus({_SKU}),nextPageToken"},
        headers={"x-goog-user-project": access.project},  # whose API has to be on: the address names none
    )
