"""QuotaPreference: a wish for another limit, looked at for a while, granted in full or in part."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.cloudquotas.infos import Quota, key_of, quotas
from gputrain_emulator.errors import ApiError, bad_request
from gputrain_emulator.quotas import Quotas
from gputrain_emulator.world import Project, World

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
