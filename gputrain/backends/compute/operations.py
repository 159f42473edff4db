"""What went wrong, as operations of Compute Engine tell it at their end."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from gputrain.backends.compute.calls import Calls
from gputrain.errors import GputrainError
from gputrain.gcp import Access, answer_of_operation, gravest, to_error
from gputrain.gcp.forms import Json

log = logging.getLogger("gputrain")


def errors_of(operation: Mapping[str, Any]) -> tuple[Json, ...]:
    """What went wrong; empty for a success.

    A status code may be missing beside ``error.errors``, and stand alone: with words that say no more.
    """
    error = operation.get("error")
    errors = error.get("errors") if isinstance(error, dict) else ()
    told = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    if not told and (error or _status(operation)):
        told = [{"message": operation.get("httpErrorMessage")}]
    return tuple(told)


def is_taken(errors: Iterable[Json]) -> bool:
    """Whether something bears a name that was asked for."""
    return any(one.get("code") == "RESOURCE_ALREADY_EXISTS" for one in errors)


def _status(operation: Mapping[str, Any]) -> int:
    return int(operation.get("httpErrorStatusCode") or 0)


def raise_first(errors: tuple[Json, ...], operation: Json, action: str, *, zone: str, access: Access) -> None:
    """Raise what the gravest of an operation's errors means; nothing where there are none.

    Google's neutral "minimum not reached" counts where nothing else is told.
    """
    error = gravest_of(errors, operation, action, zone=zone, project=access.project)
    if error is not None:
        error.fix = access.fitted(error.fix)
        raise error


def gravest_of(
    errors: tuple[Json, ...], operation: Mapping[str, Any], action: str, *, zone: str = "", project: str = ""
) -> GputrainError | None:
    """What `raise_first` raises."""
    status = _status(operation)
    errors = tuple(one for one in errors if one.get("code") != "VM_MIN_COUNT_NOT_REACHED") or errors
    answers = [answer_of_operation(one, status=status, place=zone) for one in errors]
    return gravest(to_error(answer, action, project=project) for answer in answers)


def errors_of_members(calls: Calls, zone: str, operation: Json) -> tuple[Json, ...]:
    """What the parent's error hides: the cause stands in the operations of the members."""
    group = operation.get("operationGroupId")
    if not group:
        return ()
    try:
        members = calls.operations(zone, f'operationGroupId="{group}"').seen
    except GputrainError as error:  # the parent's own words must do
        log.info("could not look at the members of %s: %s", group, error)
        return ()
    return tuple(one for member in members for one in errors_of(member))
