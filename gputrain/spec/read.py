"""Reads the fields of a spec from what people write: one row a field, every fault collected."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import attrs

from gputrain.catalog import ANY_RESERVATION, ProvisioningModel
from gputrain.entrypoint import contract
from gputrain.fields import (
    FaultCollector,
    Field,
    instance,
    is_text,
    many,
    matching,
    named,
    number,
    one_of,
    path,
    read,
    shown,
    texts,
    whole,
    words,
)
from gputrain.secrets import HIDDEN
from gputrain.spec.durations import parse_duration
from gputrain.spec.gpu import parse_gpus
from gputrain.spec.image import read_image, read_requirements
from gputrain.spec.typed import EntryKind, Launcher

LONGEST_WORD, MOST_WORDS = 128 << 10, 1 << 20
"""Bytes of one argument or variable, and of all of them: what Linux hands to a program.

Source: execve(2), read 2026-11-23: 32 pages each, and a quarter of the stack's limit, mostly 2 MiB, together;
half of that is left to what the machine's own environment holds.
"""

LONGEST_PLACE = 768
"""Bytes of a place's name in its bucket: 1,024 an object's name may have, the rest is left to files below it.
Source: Cloud Storage, "About Cloud Storage objects", by general knowledge."""

LONGEST_GRACE_S = 3600
"""How long ranks may be left to save, at most: until then machines bill that somebody wanted to go."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

# 63 is Compute's limit for an instance name; the job's random suffix and a node's number take up to 14.
NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,47}[a-z0-9])?")
MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def fields(given: Mapping[str, Any], faults: FaultCollector) -> dict[str, Any]:
    """Every field in the form that the spec keeps; what cannot be read becomes a fault and None."""
    result = read(_ROWS, given, faults)
    for name in ("env", "secrets", "labels"):
        result[name] = read_mapping(name, given[name], faults)
    check_entry(result, given, faults)
    check_together(result, faults)
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
        return ("-r", path(value).replace(os.sep, "/"))  # it is read there
    found = texts(value)
    if found[:1] == ("-r",) and len(found) == 2:
        return found
    if len(found) == 1 and found[0].endswith(".txt"):
        return _requirements(found[0])
    return read_requirements(found)


def _function(value: Any) -> Callable[[], object]:
    if not callable(value) or not hasattr(value, "__name__"):
        raise ValueError
    return value  # type: ignore[no-any-return]  # callable() narrows no further


_models = many(one_of(ProvisioningModel), or_one=True)


def _there(value: Any) -> str:
    """A path of the machine that the job runs on; an object of Windows writes it with backslashes."""
    found = value.as_posix() if isinstance(value, PurePath) and path(value) else path(value)
    if found.startswith("gs://") and not _is_place(found):
        raise ValueError(
            "a place in a bucket is gs://BUCKET/NAMES: no '.', '..' or empty name, no control character,"
            f" and at most {LONGEST_PLACE} bytes"
        )
    return found


def _is_place(text: str) -> bool:
    """Whether files below it are objects that every service and every mounted bucket shows by one name."""
    names = text.removeprefix("gs://").rstrip("/").split("/")
    return (
        not {"", ".", ".."} & set(names)
        and _CONTROL.search(text) is None
        and len("/".join(names[1:]).encode(errors="surrogatepass")) <= LONGEST_PLACE
    )


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
        lambda value: _models(value or ()),
        words(ProvisioningModel),
        "provisioning_model=['spot', 'flex-start']",
        is_needed=True,
    ),
    "reservation": Field(
        named(), "the name of a reservation, or any", "see `gcloud compute reservations list`"
    ),
    "machine_type": Field(
        named("(?=.{1,100}$){word}"), "the name of a machine type", "machine_type='a3-highgpu-8g'"
    ),
    "image": Field(
        read_image,
        "a container image, or what one is made of",
        "image='REGION-docker.pkg.dev/P/R/I@sha256:…', or gputrain.Image(...)",
    ),
    "source_dir": _PATH,
    "checkpoint_dir": attrs.evolve(_PATH, read=_there),
    "output_dir": attrs.evolve(_PATH, read=_there),
    "keep_outputs": Field(instance(bool), "True or False", "keep_outputs=True", is_needed=True),
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
    "min_nodes": Field(whole(1, 1000), "a whole number from 1 to 1000", "min_nodes=2"),
    "name": Field(
        matching(NAME),
        "at most 49 small letters, digits and hyphens, starting with a letter",
        "name='bert-base', or leave it out",
    ),
    "launcher": Field(one_of(Launcher), words(Launcher), "leave it out"),
}


ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(r"secret://[^\s]{1,500}")
"""What follows is for the backend that reads it; that word in front tells a reference from a secret."""
RESERVED_LABEL = "gputrain"


def read_mapping(field: str, value: Any, faults: FaultCollector) -> Mapping[str, str]:
    """``env``, ``secrets`` or ``labels``, each pair checked."""
    if value is None:
        return MappingProxyType({})
    fix = f"{field}={{'NAME': 'value'}}"
    pairs = faults.parse(field, value, _pairs, "a mapping of names to texts", fix) or ()
    checks = {"env": _check_env, "secrets": _check_secret, "labels": _check_label}[field]
    for name, one in pairs:
        checks(name, one, faults)
    return MappingProxyType({name: one for name, one in pairs if is_text(name) and is_text(one)})


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, Mapping):
        raise ValueError
    parts = [[str(one) if isinstance(one, str) else one for one in some] for some in (value, value.values())]
    return list(zip(*parts))


def _check_env(name: Any, value: Any, faults: FaultCollector) -> None:
    field = f"env[{shown(name)}]"
    is_known = _check_variable(field, name, faults)
    if is_known and name == contract.GRACE:
        fix = f"env={{{name!r}: '60'}}"
        faults.check(_is_grace(value), field, value, f"seconds from 0 to {LONGEST_GRACE_S}, as text", fix)
        return
    is_ours = is_known and name.startswith("GPUTRAIN_")
    faults.check(not is_ours, field, name, "GPUTRAIN_ names are gputrain's own", "rename it")
    fix = f"env={{{shown(name)}: '{shown(value)}'}}" if isinstance(value, (int, float)) else "give text"
    faults.check(is_text(value), field, value, "text, without NUL", fix)


def _is_grace(value: Any) -> bool:
    is_number = isinstance(value, str) and re.fullmatch(r"\d{1,4}(\.\d{1,3})?", value, re.ASCII)
    return bool(is_number) and float(value) <= LONGEST_GRACE_S


def _check_secret(name: Any, value: Any, faults: FaultCollector) -> None:
    field = f"secrets[{shown(name)}]"
    _check_variable(field, name, faults)
    if not (isinstance(value, str) and SECRET.fullmatch(value)):
        # Whatever was given here may be the secret itself: it is never shown.
        fix = "store it in Secret Manager and give secret://projects/P/secrets/S/versions/V"
        faults.add(field, HIDDEN, "a reference, never the secret itself", fix)


def _check_variable(field: str, name: Any, faults: FaultCollector) -> bool:
    is_one = isinstance(name, str) and bool(ENV_NAME.fullmatch(name))
    faults.check(is_one, field, name, "the name of an environment variable", "letters, digits and _")
    return is_one


def _check_label(name: Any, value: Any, faults: FaultCollector) -> None:
    field, fix = f"labels[{shown(name)}]", "labels={'team': 'nlp'}"
    key_ok = is_text(name) and bool(name.strip())
    faults.check(key_ok, field, name, "a key as text", fix)
    ours = f"labels that start with {RESERVED_LABEL} are gputrain's own"
    faults.check(not (key_ok and name.startswith(RESERVED_LABEL)), field, name, ours, "rename it")
    faults.check(is_text(value), field, value, "a value as text", fix)


def check_entry(result: dict[str, Any], given: Mapping[str, Any], faults: FaultCollector) -> None:
    """Exactly one entry; the launcher that suits it where none is named."""
    kinds = [kind.value for kind in EntryKind if given[kind.value] is not None]
    allowed = f"exactly one of {', '.join(kind.value for kind in EntryKind)}"
    if not kinds:
        faults.add("entry", None, allowed, "script='train.py'")
    elif len(kinds) > 1:
        faults.add("entry", ", ".join(kinds), allowed, f"keep {kinds[0]} and drop the others")
    if "command" in kinds and result["args"]:
        fix = "put them into command=[...]"
        faults.add("args", given["args"], "a command carries its own arguments", fix)
    if result["launcher"] is None:
        result["launcher"] = Launcher.NONE if kinds == ["command"] else Launcher.TORCHRUN_ENV


def check_together(result: dict[str, Any], faults: FaultCollector) -> None:
    """What no field can say alone."""
    is_bound = ProvisioningModel.RESERVATION_BOUND in (result["provisioning_model"] or ())
    if is_bound and result["reservation"] in (None, ANY_RESERVATION):
        fix = "reservation='my-reservation'"
        faults.add("reservation", None, "reservation-bound needs a reservation", fix)
    least, nodes, restarts = result["min_nodes"], result["num_nodes"], result["max_restarts"]
    if isinstance(least, int) and isinstance(nodes, int):
        fix = f"min_nodes={nodes}, or leave it out"
        faults.check(least <= nodes, "min_nodes", least, f"at most num_nodes={nodes}", fix)
        allowed = "a job goes on with fewer nodes by starting again"
        faults.check(bool(restarts), "max_restarts", restarts, allowed, "max_restarts=10")
    both = sorted(set(result["env"]) & set(result["secrets"]), key=str)
    if both:
        faults.add("secrets", both, "a variable is in env or in secrets, not in both", "keep it in secrets")
    _check_size(result, faults)
    run = result["max_run_duration"]
    if isinstance(run, timedelta) and run > timedelta(days=28):
        fix = "split the work and resume from the checkpoint"
        faults.add("max_run_duration", run, "at most 28 days", fix)


def _check_size(result: Mapping[str, Any], faults: FaultCollector) -> None:
    """What no program can be started with, which is else told once the machines are paid for."""
    env = [f"{name}={value}" for name, value in result["env"].items()]
    said = {"command": result["command"] or (), "args": result["args"] or (), "env": env}
    fix = "put it into a file beside the script, and give its path"
    sizes = {}
    for field, texts_of in said.items():
        each = [len(str(one).encode(errors="surrogatepass")) + 1 for one in texts_of]
        sizes[field] = sum(each)
        longest = max(each, default=0)
        faults.check(longest <= LONGEST_WORD, field, longest, f"at most {LONGEST_WORD} bytes in one", fix)
    total, largest = sum(sizes.values()), max(sizes, key=lambda field: sizes[field])
    faults.check(total <= MOST_WORDS, largest, total, f"at most {MOST_WORDS} bytes of arguments and env", fix)
