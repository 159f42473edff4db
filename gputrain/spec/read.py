"""Reads the fields of a spec from what people write: one row a field, every fault collected."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from gputrain.catalog import ProvisioningModel
from gputrain.spec import checks
from gputrain.spec.durations import parse_duration
from gputrain.spec.faults import FaultCollector
from gputrain.spec.gpu import parse_gpus
from gputrain.spec.words import Launcher

E = TypeVar("E", bound=enum.Enum)

# 63 is Compute's limit for an instance name; the job's random suffix and a node's number take up to 14.
NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,47}[a-z0-9])?")
MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@attrs.frozen
class _Row:
    """How one field is read: its reader, and what to say where it cannot be read."""

    read: Callable[[Any], Any]
    allowed: str
    fix: str


def fields(given: Mapping[str, Any], faults: FaultCollector) -> dict[str, Any]:
    """Every field in the form that the spec keeps; what cannot be read becomes a fault and None."""
    result = {name: _read_one(name, value, faults) for name, value in given.items()}
    for name in ("env", "secrets", "labels"):
        result[name] = checks.read_mapping(name, given[name], faults)
    checks.check_entry(result, given, faults)
    checks.check_together(result, faults)
    return result


def _read_one(name: str, value: Any, faults: FaultCollector) -> Any:
    row = _ROWS.get(name)
    if row is None or (value is None and name in _OPTIONAL):
        return value
    return faults.parse(name, value, row.read, row.allowed, row.fix)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value


def _matching(pattern: re.Pattern[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not pattern.fullmatch(_text(value)):
            raise ValueError
        return str(value)

    return read


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError
    for number, one in enumerate(value):
        if not isinstance(one, str) or "\0" in one:
            raise ValueError(
                f"item {number} is {type(one).__name__}" if not isinstance(one, str) else f"item {number}"
            )
    return tuple(value)


def _command(value: Any) -> tuple[str, ...]:
    texts = _texts(value)
    if not texts or not texts[0]:
        raise ValueError("it is empty")
    return texts


def _requirements(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        if not value.endswith(".txt"):
            raise ValueError
        return ("-r", value)
    texts = _texts(value)
    if texts[:1] == ("-r",) and len(texts) == 2:
        return texts
    for one in texts:
        if not one.strip() or one.lstrip().startswith("-"):
            raise ValueError(f"{one!r} is not a requirement")
    return texts


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return value

    return read


def _dollars(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ValueError
    return float(value)


def _function(value: Any) -> Callable[[], object]:
    if not callable(value) or not hasattr(value, "__name__"):
        raise ValueError
    return value  # type: ignore[no-any-return]  # callable() narrows no further


def _one_of(kind: type[E]) -> Callable[[Any], E]:
    def read(value: Any) -> E:
        if isinstance(value, kind):
            return value
        return kind(value)

    return read


def _ladder(value: Any) -> tuple[ProvisioningModel, ...]:
    read = _one_of(ProvisioningModel)
    if isinstance(value, (str, ProvisioningModel)):
        return (read(value),)
    if value is None:
        return ()
    if not isinstance(value, Sequence):
        raise ValueError
    return tuple(dict.fromkeys(read(one) for one in value))


def _words(kind: type[enum.Enum]) -> str:
    return "one of " + ", ".join(f"'{one.value}'" for one in kind)


_PATH = _Row(_text, "a path as text", "give a path, or leave it out")
_DURATION = _Row(
    parse_duration, "a positive duration", "write '90m', '12h', '1d', '1h30m', or give a timedelta"
)
_ROWS = {
    "script": _Row(_text, "the path of a Python file", "script='train.py'"),
    "module": _Row(_matching(MODULE), "a module's dotted name", "module='package.train'"),
    "command": _Row(_command, "a program and its arguments, each as text", "command=['python3', 'train.py']"),
    "function": _Row(_function, "a Python function", "function=train, without calling it"),
    "args": _Row(_texts, "a list of texts", "args=['--lr', '3e-4']; numbers as str(...)"),
    "gpu": _Row(
        parse_gpus,
        "a kind and a count such as 'H100:2', or a list of them",
        "gpu='H100:2', or gpu=2 on Local",
    ),
    "num_nodes": _Row(_whole(1, 1000), "a whole number from 1 to 1000", "num_nodes=2"),
    "nproc_per_node": _Row(_whole(1, 64), "a whole number from 1 to 64", "leave it out for one rank a GPU"),
    "provisioning_model": _Row(
        _ladder, _words(ProvisioningModel), "provisioning_model=['spot', 'flex-start']"
    ),
    "reservation": _Row(_text, "the name of a reservation", "see `gcloud compute reservations list`"),
    "machine_type": _Row(
        _matching(re.compile(r"\S{1,100}")), "the name of a machine type", "machine_type='a3-highgpu-8g'"
    ),
    "image": _Row(
        _matching(re.compile(r"[^\s]+")), "a container image", "image='REGION-docker.pkg.dev/P/R/I@sha256:…'"
    ),
    "source_dir": _PATH,
    "checkpoint_dir": _PATH,
    "output_dir": _PATH,
    "requirements": _Row(
        _requirements,
        "a list of pip requirements or the path of a .txt file",
        "requirements=['einops==0.8.0']",
    ),
    "max_run_duration": _DURATION,
    "max_wait_duration": _DURATION,
    "max_cost": _Row(_dollars, "a positive number of US dollars", "max_cost=400"),
    "max_restarts": _Row(_whole(0, 1000), "a whole number from 0 to 1000", "max_restarts=3"),
    "name": _Row(
        _matching(NAME),
        "at most 49 small letters, digits and hyphens, starting with a letter",
        "name='bert-base', or leave it out",
    ),
    "launcher": _Row(_one_of(Launcher), _words(Launcher), "leave it out"),
}
_OPTIONAL = frozenset(_ROWS) - {
    "args",
    "num_nodes",
    "requirements",
    "max_run_duration",
    "max_restarts",
    "gpu",
    "provisioning_model",
}
