"""One key is one job, so what is asked for under it is compared with what was. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from gputrain.errors import RequestError
from gputrain.fields import shown
from gputrain.records.record import Record, spec_of
from gputrain.spec import TrainingSpec

_PLACES = ("source_dir",)
"""Where the code lies is no part of what is asked: the same folder is checked out here and there."""


class ConflictError(RequestError):
    """The key is that of a job with another spec, and no job was made; ``differs`` names the fields."""

    kind = "key_conflict"
    differs: tuple[str, ...] = ()


def check_same(record: Record, spec: TrainingSpec) -> None:
    """Refuse to take one job for another.

    Raises:
        ConflictError: the record is of another spec.
    """
    what = f"{record.job_id} has been asked for under that key, and otherwise; no job was made"
    fix = "ask for it as it was asked for, or take another key"
    check_alike(record.spec, spec_of(spec, ("gputrain_function.py",)), what, fix)


def check_alike(kept: Mapping[str, Any], asked: Mapping[str, Any], what: str, fix: str) -> None:
    """Refuse two specs that differ. Raises ConflictError with the fields."""
    there, here = _compared(kept), _compared(asked)
    differs = tuple(name for name in sorted({*there, *here}) if there.get(name) != here.get(name))
    if differs:
        told = ", ".join(_told(name, there.get(name), here.get(name)) for name in differs)
        raise ConflictError(what, why=f"it has {told}", fix=fix, differs=differs)


def _told(name: str, there: object, here: object) -> str:
    if isinstance(there, Mapping) or isinstance(here, Mapping):  # of variables, whose values may be secret
        pairs = [dict(one) if isinstance(one, Mapping) else {} for one in (there, here)]
        other = sorted(key for key in {*pairs[0], *pairs[1]} if pairs[0].get(key) != pairs[1].get(key))
        return f"another {name} ({', '.join(other)})"
    return f"{name}={shown(there, name=name)} (here {shown(here, name=name)})"


def _compared(fields: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in fields.items() if name not in _PLACES}
    if isinstance(told.get("script"), str):
        told["script"] = PurePath(told["script"]).name
    return told
