"""What a user asks for, read with its code: every fault at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.errors import Fault, SpecError
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import Entry, make_spec
from gputrain.staging.checks import examine

_OF_CODE = ("script", "module", "command", "function", "args", "source_dir", "requirements")


def spec_asked(entry: Entry | None, fields: Mapping[str, Any]) -> TrainingSpec:
    """The spec that an entry and fields say.

    Raises:
        SpecError: with all its faults, and those of its code beside them.
    """
    try:
        return make_spec(entry, fields)
    except SpecError as error:
        more = _faults_of_code(entry, fields)
        if not more:
            raise
        told = error.what + "\nand its code:" + "".join(f"\n  {one}" for one in more)
        raise SpecError(told, faults=(*error.faults, *more)) from None


def _faults_of_code(entry: Entry | None, fields: Mapping[str, Any]) -> tuple[Fault, ...]:
    """What is wrong with the code, as far as its own fields can be read."""
    try:
        spec = make_spec(entry, {name: fields[name] for name in _OF_CODE if name in fields})
    except SpecError:
        return ()
    return examine(spec, is_sent=False).faults
