"""From what a user passes (a script, a list, a function) to a spec, what is odd in it, and a job's id."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from gputrain.fields import check, invalid
from gputrain.spec.spec import DEFAULTS, TrainingSpec
from gputrain.spec.types import EntryKind

F = TypeVar("F", bound=Callable[..., Any])
Entry = str | os.PathLike[str] | Sequence[str] | Callable[..., object] | TrainingSpec

ARGUMENTS = "--arguments"
"""In ``args`` of a function: its keyword arguments follow, as JSON."""
_PROGRAMS = {"torchrun": "--nnodes", "accelerate": "--num_machines", "deepspeed": "--hostfile"}
"""Launcher -> its option for several nodes."""
_MODULES = {
    "torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate", "deepspeed": "deepspeed",
}  # fmt: skip


def make_spec(entry: Entry | None, fields: Mapping[str, Any]) -> TrainingSpec:
    """The spec of an entry and fields: a path is a script, a list a command, a callable a function."""
    if isinstance(entry, TrainingSpec):
        return entry.replace(**fields) if fields else entry
    if entry is None:
        return TrainingSpec(**fields)
    if isinstance(entry, partial):
        fields = {**fields, "args": [ARGUMENTS, _arguments(entry)]}
        entry = entry.func
    kind = EntryKind.SCRIPT if isinstance(entry, (str, os.PathLike)) else EntryKind.COMMAND
    if callable(entry):
        kind = EntryKind.FUNCTION
    given = [one.value for one in EntryKind if fields.get(one.value) is not None]
    if given:
        problem = f"two entries at once, {entry!r} and {', '.join(given)}"
        raise invalid("entry", entry, "one entry", f"drop it, or {given[0]}=", problem=problem)
    return TrainingSpec(**{**fields, kind.value: entry})


def _arguments(entry: partial[object]) -> str:
    """The arguments of a partial function as JSON; they are stored beside the code."""
    name = getattr(entry.func, "__name__", repr(entry.func))
    try:
        given = inspect.signature(entry.func).bind_partial(*entry.args, **entry.keywords).arguments
        text = json.dumps(given, allow_nan=False)
        is_same = json.loads(text) == given
    except (TypeError, ValueError) as error:
        text, is_same = str(error), False
    if not is_same:
        problem = f"the arguments of {name} cannot be written as JSON ({text})"
        fix = "numbers, texts, lists and mappings by name; make the rest inside the function"
        raise invalid("function", name, "", fix, problem=problem)
    return text


def launcher_warning(spec: TrainingSpec) -> str:
    """What to write instead of a launcher that would train apart on each node; empty where none would."""
    command = spec.command or (*(spec.entrypoint or ()), *spec.args)
    words = [part for word in command for part in re.split(r"[\s;&|]+", word)]  # also of bash -c
    names = [_MODULES.get(word) or os.path.basename(word) for word in words]
    launcher = next((name for name in names if name in _PROGRAMS), "")
    if spec.num_nodes == 1 or not launcher:
        return ""
    option = _PROGRAMS[launcher]
    if any(word.replace("_", "-").startswith(option.replace("_", "-")) for word in words):
        return ""
    script = next((word for word in words if word.endswith(".py")), "train.py")
    count = re.search(r"--(?:nproc.per.node|num.processes|num.gpus)[=\s]+(\d+)", " ".join(words))
    ranks = f", nproc_per_node={count[1]}" if count else ""
    fix = f"name the script instead: script={script!r}{ranks}"
    if launcher == "torchrun":
        fix += (
            "; or run it by a shell with --nnodes=$GPUTRAIN_NUM_NODES --node-rank=$GPUTRAIN_NODE_RANK"
            " --master-addr=$GPUTRAIN_MASTER_ADDR"
        )
    nodes = f"each of {spec.num_nodes} nodes would train its own copy"
    return f"{launcher} in the command does not know the other nodes: {nodes}; {fix}"


def make_job_id(spec: TrainingSpec, idempotency_key: str | None) -> str:
    """``bert-x1y2z``: the job's name and a suffix, random or derived from the key; fit for an instance name.

    Without a name, the key is the name, so that one key always gives one id.
    """
    check("the job's id", idempotency_key=idempotency_key)
    file = re.split(r"[/\\]", spec.title)[-1].removesuffix(".py")
    words = file if idempotency_key is None else idempotency_key
    title = spec.name or re.sub(r"[^a-z0-9]+", "-", words.lower())
    stem = title.strip("-")[:49].strip("-")
    if not stem or not stem[0].isalpha():
        stem = f"job-{stem}".strip("-")[:49]
    if idempotency_key is None:
        suffix = secrets.token_hex(3)
    else:
        suffix = hashlib.sha256(idempotency_key.encode(errors="surrogatepass")).hexdigest()[:10]
    return f"{stem}-{suffix}"


def document_fields(named: type) -> Callable[[F], F]:
    """Decorate a call that takes ``**fields`` of a spec: `help()` shows each by type, default and meaning."""
    types = {name: getattr(one, "__forward_arg__", one) for name, one in named.__annotations__.items()}
    doc = inspect.cleandoc(TrainingSpec.__doc__ or "")
    rows = re.finditer(r"^ {4}(\w+): .*\n(?: {8}.*\n)*", doc, re.MULTILINE)
    meanings = "".join(row[0] for row in rows if row[1] in types)

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        kind = inspect.Parameter.KEYWORD_ONLY
        fields = [
            inspect.Parameter(name, kind, default=DEFAULTS.get(name), annotation=annotation)
            for name, annotation in types.items()
        ]
        kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*kept, *fields])  # type: ignore[attr-defined]  # as inspect reads it
        function.__doc__ = re.sub(
            r"(?m)^ {4}\*\*fields: .*\n", lambda _: meanings, inspect.cleandoc(function.__doc__ or "")
        )
        return function

    return decorate
