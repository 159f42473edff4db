"""The calls to Cloud Quotas that an increase takes; every one may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import attrs

from gputrain.errors import RequestError
from gputrain.gcp import Access, Api, Listing, MissingError, PreconditionError
from gputrain.gcp.forms import Json, mapping, whole_number
from gputrain.quota.targets import QuotaTarget, stem
from gputrain.retry import LOOK, WRITE

BEFORE = "gputrain-limit-before"
"""The annotation that keeps the limit of the day it was asked: what tells a grant in part from a denial."""


@attrs.define(kw_only=True, eq=False)
class Preferences:
    """Cloud Quotas as one project's preferences see it."""

    access: Access

    def find(self, target: QuotaTarget) -> tuple[QuotaTarget, Json]:
        """The target with its id, and its QuotaInfo.

        Raises:
            RequestError: there is no such quota.
        """
        services = f"{self._place}/services/{quote(target.api, safe='')}/quotaInfos"
        try:
            if target.quota_id:
                url = f"{services}/{quote(target.quota_id, safe='')}"
                return target, self.access.get(url, action="look up the quota", policy=LOOK)
            listed = self._listed(services, "quotaInfos", "find the quota")
            info = listed.find(lambda one: stem(str(one.get("metric", ""))) == target.metric)
            if info is not None:
                return attrs.evolve(target, quota_id=str(info["quotaId"])), info
            listed.whole("find the quota")
        except MissingError:
            pass
        name = target.quota_id or target.metric
        raise RequestError(
            f"Cloud Quotas knows no {name} of {target.api}",
            fix="take a row of trainer.quotas(), or ask at https://console.cloud.google.com/iam-admin/quotas",
        )

    def get(self, name: str) -> Json:
        """A preference as Google keeps it. Raises MissingError where there is none."""
        url = f"{self._host}/v1/{name}"
        return self.access.get(url, action="look at the quota preference", policy=LOOK)

    def put(self, name: str, body: Mapping[str, Any]) -> Json:
        """The preference of that name, made; or the one that is there already, with this value.

        A lost reply is no harm: its name is ours, so the second try meets the first.
        """
        parent, _, ident = name.partition("/quotaPreferences/")
        url = f"{self._host}/v1/{parent}/quotaPreferences"
        try:
            return self.access.post(
                url, action="ask for more quota", params={"quotaPreferenceId": ident}, json=body, policy=WRITE
            )
        except PreconditionError as error:
            kept = self._same(name, body)
            if kept is None:
                raise
            if _value(kept) == _value(body):
                return kept
            try:
                return self._changed(kept, body)
            except PreconditionError:
                kept = self.get(str(kept["name"]))  # the answer to a try of ours may have been lost
                if _value(kept) == _value(body):
                    return kept
                raise error from None

    def _changed(self, kept: Json, body: Mapping[str, Any]) -> Json:
        changed = {key: body[key] for key in ("quotaConfig", "contactEmail", "justification")}
        sent = {**changed, "etag": kept["etag"]} if kept.get("etag") else changed
        url = f"{self._host}/v1/{kept['name']}"
        return self.access.document("PATCH", url, action="ask for another value", json=sent, policy=WRITE)

    def _same(self, name: str, body: Mapping[str, Any]) -> Json | None:
        """The preference that stands in the way: of our name, or another of the same quota and place."""
        try:
            return self.get(name)
        except MissingError:
            url, key = f"{self._place}/quotaPreferences", ("service", "quotaId", "dimensions")
            listed = self._listed(url, "quotaPreferences", "look for the quota preference")
            wanted = [body.get(word) or {} for word in key]
            return listed.find(lambda one: [one.get(word) or {} for word in key] == wanted)

    def _listed(self, url: str, items: str, action: str) -> Listing[Json]:
        return self.access.pages(url, action=action, items=items, params={"pageSize": "1000"}, policy=LOOK)

    @property
    def _host(self) -> str:
        return self.access.url(Api.CLOUDQUOTAS)

    @property
    def _place(self) -> str:
        return f"{self._host}/v1/projects/{quote(self.access.project, safe=':')}/locations/global"


def _value(preference: Mapping[str, Any]) -> int | None:
    return whole_number(mapping(preference.get("quotaConfig")).get("preferredValue", 0))
