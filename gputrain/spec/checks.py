"""Checks of names and values in mappings, and of fields that must agree with each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from gputrain.catalog import ProvisioningModel
from gputrain.faults import FaultCollector
from gputrain.secrets import HIDDEN
from gputrain.spec.words import EntryKind, Launcher

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(r"secret://[^\s]{1,500}")
"""What follows is for the backend that reads it; that word in front tells a reference from a secret."""
RESERVED_LABEL = "gputrain"


def read_mapping(field: str, value: Any, faults: FaultCollector) -> Mapping[str, str]:
    """``env``, ``secrets`` or ``labels``, each pair checked."""
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, Mapping):
        faults.add(field, value, "a mapping of names to texts", f"{field}={{'NAME': 'value'}}")
        return MappingProxyType({})
    checks = {"env": _check_env, "secrets": _check_secret, "labels": _check_label}[field]
    for name, one in value.items():
        checks(name, one, faults)
    return MappingProxyType(dict(value))


def _check_env(name: Any, value: Any, faults: FaultCollector) -> None:
    field = f"env[{name!r}]"
    known = isinstance(name, str) and bool(ENV_NAME.fullmatch(name))
    faults.check(known, field, name, "the name of an environment variable", "letters, digits and _")
    faults.check(
        not (known and name.startswith("GPUTRAIN_")),
        field,
        name,
        "GPUTRAIN_ names are gputrain's own",
        "rename it",
    )
    fix = f"env={{{name!r}: {str(value)!r}}}" if isinstance(value, (int, float)) else "give text"
    faults.check(isinstance(value, str) and "\0" not in value, field, value, "text, without NUL", fix)


def _check_secret(name: Any, value: Any, faults: FaultCollector) -> None:
    field = f"secrets[{name!r}]"
    faults.check(
        isinstance(name, str) and bool(ENV_NAME.fullmatch(name)),
        field,
        name,
        "the name of an environment variable",
        "letters, digits and _",
    )
    if not (isinstance(value, str) and SECRET.fullmatch(value)):
        # Whatever was given here may be the secret itself: it is never shown.
        fix = "store it in Secret Manager and give secret://projects/P/secrets/S/versions/V"
        faults.add(field, HIDDEN, "a reference, never the secret itself", fix)


def _check_label(name: Any, value: Any, faults: FaultCollector) -> None:
    field = f"labels[{name!r}]"
    key_ok = isinstance(name, str) and bool(name.strip()) and "\0" not in name
    faults.check(key_ok, field, name, "a key as text", "labels={'team': 'nlp'}")
    reserved = key_ok and name.startswith(RESERVED_LABEL)
    faults.check(
        not reserved, field, name, f"labels that start with {RESERVED_LABEL} are gputrain's own", "rename it"
    )
    value_ok = isinstance(value, str) and "\0" not in value
    faults.check(value_ok, field, value, "a value as text", "labels={'team': 'nlp'}")


def check_entry(result: dict[str, Any], given: Mapping[str, Any], faults: FaultCollector) -> None:
    """Exactly one entry; the launcher that suits it where none is named."""
    kinds = [kind.value for kind in EntryKind if given[kind.value] is not None]
    names = ", ".join(kind.value for kind in EntryKind)
    if not kinds:
        faults.add("entry", None, f"exactly one of {names}", "script='train.py'")
    elif len(kinds) > 1:
        faults.add(
            "entry", ", ".join(kinds), f"exactly one of {names}", f"keep {kinds[0]} and drop the others"
        )
    if "command" in kinds and given["args"]:
        faults.add(
            "args", given["args"], "a command carries its own arguments", "put them into command=[...]"
        )
    if result["launcher"] is None:
        result["launcher"] = Launcher.NONE if kinds == ["command"] else Launcher.TORCHRUN_ENV


def check_together(result: dict[str, Any], faults: FaultCollector) -> None:
    """What no field can say alone."""
    models = result["provisioning_model"] or ()
    bound = ProvisioningModel.RESERVATION_BOUND in models
    faults.check(
        not bound or result["reservation"] is not None,
        "reservation",
        None,
        "reservation-bound needs a reservation",
        "reservation='my-reservation'",
    )
    both = sorted(set(result["env"]) & set(result["secrets"]), key=str)
    faults.check(
        not both, "secrets", both, "a variable is in env or in secrets, not in both", "keep it in secrets"
    )
    run = result["max_run_duration"]
    faults.check(
        not isinstance(run, timedelta) or run <= timedelta(days=28),
        "max_run_duration",
        run,
        "at most 28 days",
        "split the work and resume from the checkpoint",
    )
