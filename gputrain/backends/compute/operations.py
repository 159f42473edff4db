"""What went wrong, as operations of Compute Engine tell it at their end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gputrain.backends.compute.calls import Calls
from gputrain.errors import GputrainError
from gputrain.gcp import answer_of_operation, gravest, to_error
from gputrain.gcp.forms import Json

log = logging.getLogger("gputrain")


def errors_of(operation: Mapping[str, Any]) -> tuple[Json, ...]:
    """What went wrong, Google's neutral "minimum not reached" left out; empty for a success.

    Only ``error.errors`` decides: a status code may be missing beside it.
    """
    error = operation.get("error")
    errors = error.get("errors") if isinstance(error, dict) else ()
    told = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    return tuple(one for one in told if one.get("code") != "VM_MIN_COUNT_NOT_REACHED")


def raise_first(errors: tuple[Json, ...], status: int, action: str, *, zone: str, project: str) -> None:
    """Raise what the gravest of an operation's errors means; nothing where there are none."""
    answers = [answer_of_operation(one, status=status, place=zone) for one in errors]
    error = gravest(to_error(answer, action, project=project) for answer in answers)
    if error is not None:
        raise error


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
