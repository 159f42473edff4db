"""Where a command runs: options first, then variables, then ``gputrain.toml`` in the current folder."""

from __future__ import annotations

import difflib
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from gputrain.backends import registry
from gputrain.backends.base import Backend
from gputrain.errors import SpecError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "gputrain.toml"
LISTS = ("backends", "regions")
SHARED = (*LISTS, "project", "bucket", "image_repository", "service_account", "endpoint")
"""What backends share: an option, a variable ``GPUTRAIN_...`` and a key of the file for each."""
_OBJECTS = ("endpoints", "credentials", "progress", "sleep", "now")
"""Arguments of a backend that no file can hold."""


@attrs.frozen(kw_only=True)
class Settings:
    """What options, variables and file give together."""

    shared: Mapping[str, Any]
    sections: Mapping[str, Mapping[str, Any]]
    """Those of the file: more arguments of one backend each."""

    @classmethod
    def of(cls, given: Mapping[str, Any], backend: str = "local") -> Settings:
        """The settings for a command; ``backend`` where none is named. Raises SpecError for a faulty file."""
        file = read_file(Path(FILE))
        shared: dict[str, Any] = {"project": os.environ.get("GOOGLE_CLOUD_PROJECT")}
        shared |= {key: file[key] for key in SHARED if key in file}
        shared |= {key: given[key] for key in SHARED if given.get(key)}
        for key in LISTS:  # a variable holds several, separated by commas or spaces
            texts = shared.get(key) or ()
            shared[key] = tuple(one for text in texts for one in re.split(r"[,\s]+", text) if one)
        shared["backends"] = shared["backends"] or (backend,)
        return cls(shared=shared, sections={key: one for key, one in file.items() if key not in SHARED})

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends, in order of preference."""
        return tuple(self.shared["backends"])

    @property
    def scope(self) -> str:
        """Where a list comes from, and which backends it leaves out."""
        others = [name for name in registry.names() if name not in self.backends]
        left_out = f"; not included: {', '.join(f'--backend {name}' for name in others)}" if others else ""
        return f"backends: {', '.join(self.backends)}{left_out}"

    def make(self, *, plans: bool = False) -> list[Backend]:
        """The backends, or what only plans. SpecError: one lacks something, or has something wrong."""
        return [self._make(name, plans=plans) for name in self.backends]

    def emulator(self) -> dict[str, Any]:
        """What leads a cloud backend to an emulator; empty for Google itself."""
        if not self.shared.get("endpoint"):
            return {}
        from gputrain.google.endpoints import reach

        return reach(self.shared["endpoint"])

    def _make(self, name: str, *, plans: bool) -> Backend:
        kind = registry.find(name)
        shared = {key: one for key, one in self.shared.items() if key not in ("backends", "endpoint") and one}
        given = registry.accepted(kind, {**shared, **self.emulator(), **self.sections.get(name, {})})
        needed = [key for key, one in registry.takes(kind).items() if one.default is one.empty]
        needed += () if plans else kind.needed_beyond_plans
        missing = [key for key in needed if key not in given]
        if missing:
            wanted = "; ".join(_where(name, key) for key in missing)
            raise SpecError(f"the {name} backend needs {' and '.join(missing)}", fix=wanted)
        try:
            return kind(**given)
        except SpecError as error:  # say where the argument was given
            if not any(one.field.startswith("$") for one in error.faults):  # a variable of the environment
                error.fix = "; ".join(_where(name, one.field) for one in error.faults) or error.fix
            raise


def _where(name: str, argument: str) -> str:
    """Where an argument of a backend is given."""
    argument = {"region": "regions"}.get(argument, argument)
    if argument not in SHARED:
        return f"{argument} = ... under [{name}] in {FILE}"
    flag = argument.removesuffix("s") if argument in LISTS else argument
    return f"--{flag.replace('_', '-')}, $GPUTRAIN_{argument.upper()}, or {argument} = ... in {FILE}"


def read_file(path: Path) -> dict[str, Any]:
    """The file's keys and sections; empty where there is none.

    Raises:
        SpecError: with all its faults; or it is somebody else's, in a folder that everybody may write.
    """
    whole = path.absolute()
    if not path.exists():
        return {}
    try:
        if not path.is_file():  # nor one that would hold us up
            raise OSError("it is no plain file")
        with path.open("rb") as file:
            owner = os.fstat(file.fileno()).st_uid
            me = getattr(os, "geteuid", lambda: owner)  # Windows has none, nor folders for everybody
            if owner not in (me(), 0) and whole.parent.stat().st_mode & stat.S_IWOTH:
                raise OSError(f"somebody else put it into {whole.parent}, where everybody may write")
            found: dict[str, Any] = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"{whole} cannot be read", why=str(error), fix="correct it, or remove it") from error
    if faults := [one for key, value in found.items() for one in _faults(key, value)]:
        raise SpecError("\n  ".join([f"{whole}:", *faults]))
    return found


def _faults(key: str, value: Any) -> Iterable[str]:
    """What is wrong with a key of the file."""
    if key in LISTS:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            yield f'{key}: expected a list of texts, as in {key} = ["..."]'
    elif key in SHARED:
        if not isinstance(value, str):
            yield f'{key}: expected a text, as in {key} = "..."'
    elif key not in registry.names():
        yield _unknown(key, (*SHARED, *registry.names()))
    elif not isinstance(value, dict):
        yield f"{key}: expected a section: [{key}] on a line of its own, and its keys below it"
    else:
        known = [name for name in registry.takes(registry.find(key)) if name not in _OBJECTS]
        yield from (f"[{key}] {_unknown(name, known)}" for name in value if name not in known)


def _unknown(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(known), n=1)
    return f"{key}: no such key" + (
        f"; did you mean {near[0]}?" if near else f". There are: {', '.join(known)}"
    )
