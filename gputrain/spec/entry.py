"""From what a user hands over (a script, a list, a function) to a spec, and from a spec to a job's name."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gputrain.arguments import check
from gputrain.fields import refused
from gputrain.spec.training import TrainingSpec
from gputrain.spec.typed import EntryKind

Entry = str | os.PathLike[str] | Sequence[str] | Callable[..., object] | TrainingSpec

ARGUMENTS = "--arguments"
"""In ``args`` of a function: what follows are its keyword arguments, as JSON."""


def make_spec(entry: Entry | None, fields: Mapping[str, Any]) -> TrainingSpec:
    """The spec that an entry and fields say: a path is a script, a list a command, a callable a function."""
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
        what = f"two entries at once: {entry!r} and {', '.join(given)}"
        raise refused("entry", entry, "one entry", f"drop it, or {given[0]}=", what=what)
    return TrainingSpec(**{**fields, kind.value: entry})


def _arguments(entry: partial[object]) -> str:
    """The arguments of a partial function as JSON; they travel beside the code, which all calls share."""
    name = getattr(entry.func, "__name__", repr(entry.func))
    try:
        given = inspect.signature(entry.func).bind_partial(*entry.args, **entry.keywords).arguments
        text = json.dumps(given, allow_nan=False)
        is_same = json.loads(text) == given
    except (TypeError, ValueError) as error:
        text, is_same = str(error), False
    if not is_same:
        fix = "give numbers, texts, lists and mappings by name, and make the rest inside the function"
        what = f"the arguments of {name} cannot travel"
        raise refused("function", name, f"arguments that JSON can hold: {text}", fix, what=what)
    return text


def make_job_id(spec: TrainingSpec, idempotency_key: str | None) -> str:
    """``bert-x1y2z``: the job's name and a suffix, random or drawn from the key; fit for an instance.

    Without a name, a key's own words are the name: whatever is submitted under one key has one id.
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
