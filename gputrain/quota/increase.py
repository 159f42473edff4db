"""Asking Google for a higher limit: prepared first, shown, and filed when told to."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping
from typing import Any

import attrs

from gputrain import fields
from gputrain.errors import QuotaExceededError, RequestError
from gputrain.fields import Field
from gputrain.gcp import Access
from gputrain.gcp.endpoints import ROWS
from gputrain.gcp.forms import mapping
from gputrain.quota.book import limit_at, number, rows
from gputrain.quota.preferences import BEFORE, Preferences
from gputrain.quota.shown import figure
from gputrain.quota.targets import QuotaTarget, target_of
from gputrain.quota.values import Reading, Standing
from gputrain.tables import Shown, Table

CONSOLE = "https://console.cloud.google.com/iam-admin/quotas?project={project}"

_REMEDIES = {
    "NOT_ENOUGH_USAGE_HISTORY": "use what there is for some days first, or ask Google's sales",
    "NO_VALID_BILLING_ACCOUNT": "gcloud billing projects link {project} --billing-account ACCOUNT",
}
"""What mends an ineligibility; for the others, the console. Source: cloudquotas v1 protos, 2026-11-20."""


class IncreaseState(enum.Enum):
    """How far a request for more has come."""

    PREPARED = "prepared"
    """Nothing has been sent."""
    REVIEWED = "being reviewed"
    GRANTED = "granted"
    PARTLY = "granted in part"
    DENIED = "denied"


@attrs.define(kw_only=True, unsafe_hash=True)
class Increase(Shown):
    """A request for a higher limit: what is sent, whether Google takes such requests, and how it stands.

    It shows itself as a table. `file` sends it, `refresh` looks at it again.
    """

    name: str
    """The preference's resource name: the same for the same quota and place, so that twice is once."""
    preference: Mapping[str, Any] = attrs.field(hash=False)
    """The exact QuotaPreference, in JSON types."""
    limit_now: float | None
    ineligible: str = ""
    """Why Google takes no request for more of this quota, in its word; empty: it does, or does not say."""
    state: IncreaseState = IncreaseState.PREPARED
    granted: float | None = None
    """The limit that Google has granted; None: it has not said."""
    detail: str = ""
    """Google's own words on the state."""
    _preferences: Preferences = attrs.field(repr=False, eq=False)

    def file(self) -> Increase:
        """Send it, and return how it stands; one that was filed before with this value is not sent again.

        Raises:
            RequestError: Google takes no request for more of this quota, or not this one.
            AccessError: you may not ask, or the Cloud Quotas API is switched off.
        """
        self.check_eligible()
        kept = self._preferences.put(self.name, self.preference)
        return attrs.evolve(self, name=kept.get("name", self.name), **_progress(kept, self.limit_now))

    def refresh(self) -> Increase:
        """How it stands now. Raises as `file`."""
        if self.state is IncreaseState.PREPARED:
            return self
        return attrs.evolve(self, **_progress(self._preferences.get(self.name), self.limit_now))

    def check_eligible(self) -> None:
        """Raise RequestError where Google takes no request for more of this quota."""
        if not self.ineligible:
            return
        project = self.name.split("/")[1]
        raise RequestError(
            f"Google takes no request for more of {self.preference['quotaId']}",
            why=self.ineligible,
            fix=_REMEDIES.get(self.ineligible, f"ask at {CONSOLE}").format(project=project),
        )

    @property
    def table(self) -> Table:
        """Every field of the preference, and how it stands."""
        config = self.preference["quotaConfig"]
        dimensions = self.preference.get("dimensions", {})
        rows = [
            ("name", self.name),
            *((key, self.preference[key]) for key in ("service", "quotaId")),
            *((f"dimensions.{key}", value) for key, value in dimensions.items()),
            ("quotaConfig.preferredValue", config["preferredValue"]),
            *((f"quotaConfig.annotations.{key}", value) for key, value in config["annotations"].items()),
            *((key, self.preference[key]) for key in ("contactEmail", "justification")),
            ("limit now", figure(self.limit_now)),
            ("eligible", f"no: {self.ineligible}" if self.ineligible else "yes"),
            ("state", self.state.value),
            ("granted", "" if self.granted is None else figure(self.granted)),
            ("Google says", self.detail),
        ]
        shown = [(name, value) for name, value in rows if value != ""]
        caption = "nothing has been sent: .file() sends it" if self.state is IncreaseState.PREPARED else ""
        return Table(title="Quota increase", columns=("field", "value"), rows=shown, caption=caption)


def request_increase(
    target: Standing | Reading | QuotaExceededError,
    value: int,
    contact_email: str,
    justification: str,
    *,
    dry_run: bool = True,
    project: str = "",
    credentials: Any = None,
    endpoints: Any = None,
) -> Increase:
    """What would be asked of Google, or what was asked: a higher limit of one quota at one place.

    Nothing is sent unless ``dry_run`` is False (or `Increase.file` is called): the quota is looked up,
    whether it may be raised is checked, and the exact QuotaPreference comes back.

    Args:
        target: a row of ``trainer.quotas()``, one of its readings, or the error that a job met.
        value: the limit wanted, not what is added to it; -1 asks for none at all.
        contact_email: where Google asks back. It requires one for increases.
        justification: what it is for, in a sentence or two; Google reads it.
        dry_run: look only.
        project: whose quota; known from a standing or a reading, to be named with an error.
        credentials: google.auth credentials; this environment's default ones unless given.
        endpoints: where Google's APIs are; `gputrain.emulator`'s, for a trial.

    Raises:
        SpecError: with all faults of the arguments.
        RequestError: no quota of that name, the limit is as high already, or Google takes no such request.
        AccessError: you may not read or ask, or the Cloud Quotas API is switched off.
        TransientError: no answer came; ask again, which makes no second request.

    Source: cloudquotas v1 protos, read 2026-11-20.
    """
    _check(value=value, contact_email=contact_email, endpoints=endpoints, credentials=credentials)
    wanted = target_of(target, project)
    preferences = Preferences(
        access=Access(project=wanted.project, credentials=credentials, endpoints=endpoints)
    )
    wanted, info = preferences.find(wanted)
    limit = limit_at(rows(info), wanted.dimensions)
    if limit is not None and value != -1 and value <= limit:
        why = f"the limit of {wanted.quota_id} is {figure(limit)} there"
        raise RequestError(f"nothing to ask for: {value} is not more", why=why, fix="a higher value")
    body = _body(wanted, value, contact_email, justification, limit)
    name = f"projects/{wanted.project}/locations/global/quotaPreferences/{_ident(wanted)}"
    found = Increase(
        name=name, preference=body, limit_now=limit, ineligible=_ineligible(info), preferences=preferences
    )
    return found if dry_run else found.file()


def _check(**given: object) -> None:
    fields.read_whole("what is asked for", _ROWS, given)


def _limit(value: object) -> object:
    return value if value == -1 and not isinstance(value, bool) else _ABOVE_0(value)


_ABOVE_0 = fields.whole(1, 2**63 - 1)
_ROWS = {
    "value": Field(_limit, "a whole number above 0, or -1 for no limit", "value=16", is_needed=True),
    "contact_email": Field(
        fields.matching(r"[^@\s]+@[^@\s]+"), "an e-mail address", "contact_email='you@example.com'",
        is_needed=True,
    ),
    **ROWS,
}  # fmt: skip


def _body(
    target: QuotaTarget, value: int, contact_email: str, justification: str, limit: float | None
) -> dict[str, Any]:
    return {
        "service": target.api,
        "quotaId": target.quota_id,
        **({"dimensions": dict(target.dimensions)} if target.dimensions else {}),
        "quotaConfig": {
            "preferredValue": str(value),
            "annotations": {} if limit is None else {BEFORE: figure(limit)},
        },
        "contactEmail": contact_email,
        "justification": justification,
    }


def _ident(target: QuotaTarget) -> str:
    """An id that the same quota and place always get: there can be one preference of each."""
    parts = (
        target.api,
        target.quota_id,
        *(f"{key}={value}" for key, value in sorted(target.dimensions.items())),
    )
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]
    short = re.sub(r"-?per-?project.*", "", target.quota_id, flags=re.IGNORECASE)
    words = "-".join([short, *target.dimensions.values()]).lower()
    return f"gputrain-{re.sub('[^a-z0-9]+', '-', words)[:42].strip('-')}-{digest}"


def _ineligible(info: Mapping[str, Any]) -> str:
    if info.get("isFixed"):
        return "NOT_SUPPORTED"
    told = info.get("quotaIncreaseEligibility")
    if not isinstance(told, dict) or told.get("isEligible"):
        return ""
    return str(told.get("ineligibilityReason", "OTHER"))


def _progress(kept: Mapping[str, Any], limit_now: float | None) -> dict[str, Any]:
    """State, granted value and Google's words, from a preference that Google keeps."""
    config = mapping(kept.get("quotaConfig"))
    wanted, granted = number(config.get("preferredValue")), number(config.get("grantedValue"))
    before = number(mapping(config.get("annotations")).get(BEFORE))
    before = limit_now if before is None else before
    if kept.get("reconciling"):
        state = IncreaseState.REVIEWED
    elif granted is None or wanted is None or granted >= wanted:
        state = IncreaseState.GRANTED if granted is not None else IncreaseState.REVIEWED
    else:
        is_more = before is not None and granted > before
        state = IncreaseState.PARTLY if is_more else IncreaseState.DENIED
    return {"state": state, "granted": granted, "detail": str(config.get("stateDetail", ""))}
