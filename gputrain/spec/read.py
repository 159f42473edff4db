"""Reads the fields of a spec from what people write: one row a field, every fault collected."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from gputrain.catalog import ProvisioningModel
from gputrain.faults import FaultCollector
from gputrain.fields import (
    Field,
    many,
    matching,
    named,
    number,
    one_of,
    path,
    read,
    texts,
    whole,
    words,
    yes_or_no,
)
from gputrain.spec import checks
from gputrain.spec.durations import parse_duration
from gputrain.spec.gpu import parse_gpus
from gputrain.spec.words import Launcher

# 63 is Compute's limit for an instance name; the job's random suffix and a node's number take up to 14.
NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,47}[a-z0-9])?")
MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def fields(given: Mapping[str, Any], faults: FaultCollector) -> dict[str, Any]:
    """Every field in the form that the spec keeps; what cannot be read becomes a fault and None."""
    result = read(_ROWS, given, faults)
    for name in ("env", "secrets", "labels"):
        result[name] = checks.read_mapping(name, given[name], faults)
    checks.check_entry(result, given, faults)
    checks.check_together(result, faults)
    return result


def _command(value: Any) -> tuple[str, ...]:
    found = texts(value)
    if not found or not found[0]:
        raise ValueError("it is empty")
    return found


def _requirements(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, os.PathLike)):
        if not path(value).endswith(".txt"):
            raise ValueError
        return ("-r", path(value))
    found = texts(value)
    if found[:1] == ("-r",) and len(found) == 2:
        return found
    for one in found:
        if not one.strip() or one.lstrip().startswith("-"):
            raise ValueError(f"{one!r} is not a requirement")
    return found


def _function(value: Any) -> Callable[[], object]:
    if not callable(value) or not hasattr(value, "__name__"):
        raise ValueError
    return value  # type: ignore[no-any-return]  # callable() narrows no further


def _ladder(value: Any) -> tuple[ProvisioningModel, ...]:
    return () if value is None else many(one_of(ProvisioningModel), or_one=True)(value)


_PATH = Field(path, "a path", "give a path, or leave it out; a place in a bucket as text: 'gs://...'")
_DURATION = Field(
    parse_duration, "a positive duration", "write '90m', '12h', '1d', '1h30m', or give a timedelta"
)
_ROWS = {
    "script": Field(path, "the path of a Python file", "script='train.py'"),
    "module": Field(matching(MODULE), "a module's dotted name", "module='package.train'"),
    "command": Field(
        _command, "a program and its arguments, each as text", "command=['python3', 'train.py']"
    ),
    "function": Field(_function, "a Python function", "function=train, without calling it"),
    "args": Field(texts, "a list of texts", "args=['--lr', '3e-4']; numbers as str(...)", is_needed=True),
    "gpu": Field(
        parse_gpus,
        "a kind and a count such as 'H100:2', or a list of them",
        "gpu='H100:2', or gpu=2 on Local",
        is_needed=True,
    ),
    "num_nodes": Field(whole(1, 1000), "a whole number from 1 to 1000", "num_nodes=2", is_needed=True),
    "nproc_per_node": Field(whole(1, 64), "a whole number from 1 to 64", "leave it out for one rank a GPU"),
    "provisioning_model": Field(
        _ladder, words(ProvisioningModel), "provisioning_model=['spot', 'flex-start']", is_needed=True
    ),
    "reservation": Field(named(), "the name of a reservation", "see `gcloud compute reservations list`"),
    "machine_type": Field(
        named("(?=.{1,100}$){word}"), "the name of a machine type", "machine_type='a3-highgpu-8g'"
    ),
    "image": Field(named(), "a container image", "image='REGION-docker.pkg.dev/P/R/I@sha256:…'"),
    "source_dir": _PATH,
    "checkpoint_dir": _PATH,
    "output_dir": _PATH,
    "keep_outputs": Field(yes_or_no, "True or False", "keep_outputs=True", is_needed=True),
    "requirements": Field(
        _requirements,
        "a list of pip requirements or the path of a .txt file",
        "requirements=['einops==0.8.0']",
        is_needed=True,
    ),
    "max_run_duration": attrs.evolve(_DURATION, is_needed=True),
    "max_wait_duration": _DURATION,
    "hang_timeout": _DURATION,
    "max_cost": Field(number(0, 1e9), "a positive number of US dollars", "max_cost=400"),
    "max_restarts": Field(whole(0, 1000), "a whole number from 0 to 1000", "max_restarts=3", is_needed=True),
    "name": Field(
        matching(NAME),
        "at most 49 small letters, digits and hyphens, starting with a letter",
        "name='bert-base', or leave it out",
    ),
    "launcher": Field(one_of(Launcher), words(Launcher), "leave it out"),
}
