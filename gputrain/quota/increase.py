"""Requests to Google for a higher limit: prepared and shown first, filed on demand."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import attrs

from gputrain import fields
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import QuotaExceededError, RequestError
from gputrain.fields import Field, reader
from gputrain.google import Api, GoogleClient, Listing, MissingError
from gputrain.google.endpoints import ROWS
from gputrain.google.forms import Json, mapping, whole_number
from gputrain.quota.model import CONSOLE, EVERYWHERE, QuotaReading, QuotaStatus, limit_at, stem
from gputrain.quota.reader import figure, limit_of, rows
from gputrain.retry import LOOK, WRITE

BEFORE = "gputrain-limit-before"
"""The annotation that keeps the limit at the request: it distinguishes a grant in part from a denial."""

_FIXES = {
    "NOT_ENOUGH_USAGE_HISTORY": "use what there is for some days first, or ask Google's sales",
    "NO_VALID_BILLING_ACCOUNT": "gcloud billing projects link {project} --billing-account ACCOUNT",
}
"""The fix of an ineligibility; for the others, the console. Source: cloudquotas v1 protos, 2026-11-20."""


class IncreaseState(enum.Enum):
    """How far a request for more has come."""

    PREPARED = "prepared"
    """Nothing has been sent."""
    REVIEWED = "being reviewed"
    GRANTED = "granted"
    PARTLY = "granted in part"
    DENIED = "denied"


@attrs.frozen(kw_only=True)
class Increase(TableDisplay):
    """A request for a higher limit: what is sent, whether Google takes such requests, and its state.

    It shows itself as a table. `file` sends it, `refresh` reads it again.
    """

    name: str
    """The preference's resource name: the same for the same quota and place, so that it is safe to repeat."""
    preference: Mapping[str, Any] = attrs.field(hash=False)
    """The exact QuotaPreference, in JSON types."""
    limit_now: float | None
    ineligible: str = ""
    """Google's reason to take no request for more of this quota; empty: it does, or does not say."""
    state: IncreaseState = IncreaseState.PREPARED
    granted: float | None = None
    """The limit that Google has granted; None: it has not said."""
    detail: str = ""
    """Google's own words on the state."""
    _client: GoogleClient = attrs.field(repr=False, eq=False)

    def file(self) -> Increase:
        """Send it, and return its state; one that was filed before with this value is not sent again.

        Raises:
            RequestError: Google takes no request for more of this quota, or not this one.
            AccessError: you may not ask, or the Cloud Quotas API is switched off.
        """
        if self.ineligible:
            raise RequestError(
                f"Google takes no request for more of {self.preference['quotaId']}",
                why=self.ineligible,
                fix=_FIXES.get(self.ineligible, f"ask at {CONSOLE}?project={{project}}").format(
                    project=self._client.project
                ),
            )
        kept = _put(self._client, self.name, self.preference)
        return attrs.evolve(self, name=kept.get("name", self.name), **_progress(kept, self.limit_now))

    def refresh(self) -> Increase:
        """The same with its state now. Raises as `file`."""
        if self.state is IncreaseState.PREPARED:
            return self
        url = f"{self._client.url(Api.CLOUDQUOTAS)}/v1/{self.name}"
        kept = self._client.get(url, action="look at the quota preference", policy=LOOK)
        return attrs.evolve(self, **_progress(kept, self.limit_now))

    @property
    def table(self) -> Table:
        """Every field of the preference, and its state."""
        rows = [
            ("name", self.name),
            *_flat(self.preference),
            ("limit now", figure(self.limit_now)),
            ("eligible", f"no: {self.ineligible}" if self.ineligible else "yes"),
            ("state", self.state.value),
            ("granted", "" if self.granted is None else figure(self.granted)),
            ("Google says", self.detail),
        ]
        shown = [(name, value) for name, value in rows if value != ""]
        caption = "nothing has been sent: .file() sends it" if self.state is IncreaseState.PREPARED else ""
        return Table(title="Quota increase", columns=("field", "value"), rows=shown, caption=caption)


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def request_increase(
    target: QuotaStatus | QuotaReading | QuotaExceededError,
    value: int,
    contact_email: str,
    justification: str,
    *,
    dry_run: bool = True,
    project: str = "",
    credentials: Any = None,
    endpoints: Any = None,
) -> Increase:
    """Prepare a request to Google for a higher limit of one quota at one place.

    Nothing is sent unless ``dry_run`` is False (or `Increase.file` is called): the quota is looked up,
    whether it may be raised is checked, and the exact QuotaPreference comes back.

    Args:
        target: a row of ``trainer.quotas()``, one of its readings, or the error that a job met.
        value: the limit wanted, not what is added to it; -1 requests no limit at all.
        contact_email: where Google asks back. It requires one for increases.
        justification: what it is for, in a sentence or two; Google reads it.
        dry_run: look only.
        project: whose quota; known from a status or a reading, to be named with an error.
        credentials: google.auth credentials; this environment's default ones unless given.
        endpoints: where Google's APIs are; `gputrain.emulator`'s, to try things.

    Raises:
        SpecError: with all faults of the arguments.
        RequestError: no quota of that name, the limit is as high already, or Google takes no such request.
        AccessError: you may not read or ask, or the Cloud Quotas API is switched off.
        TransientError: no answer came; try again, which makes no second request.

    Source: cloudquotas v1 protos, read 2026-11-20.
    """
    reach = {"credentials": credentials, "endpoints": endpoints}
    fields.read_whole("the request", _ROWS, {"value": value, "contact_email": contact_email, **reach})
    wanted = _reading_of(target, project)
    client = GoogleClient(project=wanted.project, **reach)
    info = _find(client, wanted)
    quota_id, dimensions = str(info.get("quotaId") or wanted.quota_id), dict(wanted.dimensions)
    limit = limit_at(rows(info), dimensions)
    if limit is not None and value != -1 and value <= limit:
        why = f"the limit of {quota_id} is {figure(limit)} there"
        raise RequestError(f"nothing to ask for: {value} is not more", why=why, fix="a higher value")
    eligibility, ineligible = mapping(info.get("quotaIncreaseEligibility")), ""
    if info.get("isFixed"):
        ineligible = "NOT_SUPPORTED"
    elif eligibility and not eligibility.get("isEligible"):
        ineligible = str(eligibility.get("ineligibilityReason", "OTHER"))
    # there can be one preference of a quota and place, so its id is made from these
    parts = (f"{key}={one}" for key, one in sorted(dimensions.items()))
    digest = hashlib.sha256("\n".join((wanted.api, quota_id, *parts)).encode()).hexdigest()[:10]
    words = "-".join([re.sub(r"(?i)-?per-?project.*", "", quota_id), *dimensions.values()]).lower()
    name = f"gputrain-{re.sub('[^a-z0-9]+', '-', words)[:42].strip('-')}-{digest}"
    found = Increase(
        name=f"projects/{wanted.project}/locations/global/quotaPreferences/{name}",
        preference={
            "service": wanted.api,
            "quotaId": quota_id,
            **({"dimensions": dimensions} if dimensions else {}),
            "quotaConfig": {
                "preferredValue": str(value),
                "annotations": {} if limit is None else {BEFORE: figure(limit)},
            },
            "contactEmail": contact_email,
            "justification": justification,
        },
        limit_now=limit,
        ineligible=ineligible,
        client=client,
    )
    return found if dry_run else found.file()


_ROWS = {
    "value": Field(
        reader(lambda value: type(value) is int and (value == -1 or 0 < value < 2**63)),
        "a whole number above 0, or -1 for no limit", "value=16", is_needed=True,
    ),
    "contact_email": Field(
        fields.matching(r"[^@\s]+@[^@\s]+"), "an e-mail address", "contact_email='you@example.com'",
        is_needed=True,
    ),
    **ROWS,
}  # fmt: skip
_FAMILY = re.compile(r"(?P<id>\S+) \((?P<family>\w+)\)")


def _reading_of(meant: QuotaStatus | QuotaReading | QuotaExceededError, project: str) -> QuotaReading:
    """The quota that is meant; RequestError where none is that could be raised, or of no known project.

    That of an error may have no id, but a metric.
    """
    if isinstance(meant, QuotaExceededError):
        if not project:
            why = "the error does not say which project it is about"
            raise RequestError("whose quota is meant?", why=why, fix="project='my-project'")
        dimensions = {key: value for key, value in meant.dimensions.items() if key != "global"}
        family = _FAMILY.fullmatch(meant.metric)
        if family:
            dimensions.setdefault("gpu_family", family["family"])
        if meant.where not in ("", "global", EVERYWHERE):
            dimensions.setdefault("region", meant.where)
        api, slash, _ = meant.metric.partition("/")
        return QuotaReading(
            project=project, api=api if slash else "compute.googleapis.com", metric=meant.metric, need=0,
            quota_id=meant.limit_name or (family["id"] if family else ""), where=meant.where,
            dimensions=tuple(dimensions.items()),
        )  # fmt: skip
    reading = meant.deciding if isinstance(meant, QuotaStatus) else meant
    if reading is None or not reading.quota_id:
        why = meant.note or "Cloud Quotas has no quota of a name that is known"
        raise RequestError("no quota to ask more of", why=why, fix="ask in Google's console")
    return attrs.evolve(reading, project=project or reading.project)


def _progress(kept: Mapping[str, Any], limit_now: float | None) -> dict[str, Any]:
    """State, granted value and Google's words, from a preference that Google keeps."""
    config = mapping(kept.get("quotaConfig"))
    wanted, granted = limit_of(config.get("preferredValue")), limit_of(config.get("grantedValue"))
    before = limit_of(mapping(config.get("annotations")).get(BEFORE))
    before = limit_now if before is None else before
    if kept.get("reconciling") or granted is None:
        state = IncreaseState.REVIEWED
    elif wanted is None or granted >= wanted:
        state = IncreaseState.GRANTED
    else:
        is_more = before is not None and granted > before
        state = IncreaseState.PARTLY if is_more else IncreaseState.DENIED
    return {"state": state, "granted": granted, "detail": str(config.get("stateDetail", ""))}


# Calls to Cloud Quotas; each may be repeated


def _find(client: GoogleClient, wanted: QuotaReading) -> Json:
    """The QuotaInfo of a quota: by its id, else by its metric."""
    url = f"{_parent(client)}/services/{quote(wanted.api, safe='')}/quotaInfos"
    try:
        if wanted.quota_id:
            address = f"{url}/{quote(wanted.quota_id, safe='')}"
            return client.get(address, action="look up the quota", policy=LOOK)
        listed = _list(client, url, "quotaInfos", "find the quota")
        for info in listed.items:
            if stem(str(info.get("metric", ""))) == stem(wanted.metric) and info.get("quotaId"):
                return info
        listed.require_complete("find the quota")
    except MissingError:
        pass
    raise RequestError(
        f"Cloud Quotas knows no {wanted.quota_id or stem(wanted.metric)} of {wanted.api}",
        fix=f"take a row of trainer.quotas(), or ask at {CONSOLE}",
    )


def _put(client: GoogleClient, name: str, body: Mapping[str, Any]) -> Json:
    """The preference for the quota and place of ``body``, with its value.

    There can be one of each, by any name, so filing twice, or after a lost reply, is filing once.
    """

    def parts(preference: Mapping[str, Any]) -> list[Any]:
        return [preference.get(key) or {} for key in ("service", "quotaId", "dimensions")]

    def value(preference: Mapping[str, Any]) -> int | None:
        return whole_number(mapping(preference.get("quotaConfig")).get("preferredValue", 0))

    listed = _list(client, f"{_parent(client)}/quotaPreferences", "quotaPreferences", "find the preference")
    kept = next((one for one in listed.items if parts(one) == parts(body)), None)
    if kept is not None and value(kept) == value(body):
        return kept
    return client.request_json(
        "PATCH", f"{client.url(Api.CLOUDQUOTAS)}/v1/{kept['name'] if kept else name}",
        action="request more quota", params={"allowMissing": "true"}, json=body, policy=WRITE,
    )  # fmt: skip


def _list(client: GoogleClient, url: str, items: str, action: str) -> Listing[Json]:
    return client.list_all(url, action=action, items=items, params={"pageSize": "1000"}, policy=LOOK)


def _parent(client: GoogleClient) -> str:
    return f"{client.url(Api.CLOUDQUOTAS)}/v1/projects/{quote(client.project, safe=':')}/locations/global"
