"""Where a command runs: flags first, then the environment, then ``gputrain.toml`` in the current folder."""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

from gputrain.backends.base import Backend, JobRef
from gputrain.cli.parser import BACKENDS
from gputrain.errors import Fault, SpecError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "gputrain.toml"
LISTS = ("backends", "regions")
SHARED = (*LISTS, "project", "bucket", "service_account", "endpoint")
"""What all backends share: a flag, a variable ``GPUTRAIN_...`` and a key of the file for each."""
_HOMES = {
    "local": ("gputrain.backends.local", "Local"),
    "vertex": ("gputrain.backends.vertex", "VertexAI"),
    "compute": ("gputrain.backends.compute", "ComputeEngine"),
}
_OBJECTS = frozenset({"endpoints", "credentials", "progress", "sleep", "now", "region"})
"""Arguments of a backend that no file can hold."""


@attrs.frozen(kw_only=True)
class Settings:
    """What flags, environment and file say together."""

    shared: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]]
    """The sections of the file: more arguments of one backend."""

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends, in order of preference; ``local`` unless said."""
        return tuple(self.shared.get("backends") or ("local",))

    @property
    def reach(self) -> dict[str, Any]:
        """What points a cloud backend at an emulator; empty for Google itself."""
        if not self.shared.get("endpoint"):
            return {}
        from gputrain.gcp.trial import reach

        return reach(self.shared["endpoint"])

    def make(self) -> list[Backend]:
        """The backends.

        Raises:
            SpecError: something that one needs is missing or wrong.
        """
        return [self._make(name) for name in self.backends]

    def backend_of(self, ref: JobRef) -> Backend | None:
        """The backend that a job's name speaks of: the one that is set up, or one made from the name; None
        where there is none of that kind.
        """
        if ref.backend in self.backends:
            return self._make(ref.backend)
        if ref.backend not in BACKENDS:
            return None
        made: Backend = _class_of(ref.backend).for_ref(ref, **({} if ref.backend == "local" else self.reach))
        return made

    def _make(self, name: str) -> Backend:
        own = self.own.get(name, {})
        if name == "local":
            local: Backend = _class_of(name)(**own)
            return local
        given = {key: self.shared.get(key) for key in ("project", "regions", "bucket", "service_account")}
        given["project"] = given["project"] or ""
        try:
            made: Backend = _class_of(name)(**{**given, **self.reach, **own})
        except SpecError as error:
            said = "--project, --region, --bucket, --service-account; GPUTRAIN_PROJECT, GPUTRAIN_REGIONS, ..."
            error.fix = f"{said}; or {FILE}"
            raise
        return made


def read(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings for a command.

    Raises:
        SpecError: the file is not TOML, or says what nothing here is called.
    """
    file = _file(Path(FILE))
    shared = {key: file[key] for key in SHARED if key in file}
    for key in SHARED:
        said = environ.get(f"GPUTRAIN_{key.upper()}", "")
        if said:
            shared[key] = [one.strip() for one in said.split(",")] if key in LISTS else said
    shared.setdefault("project", environ.get("GOOGLE_CLOUD_PROJECT"))
    shared |= {key: getattr(options, key) for key in SHARED if getattr(options, key, None)}
    faults = [
        _unknown("backends", name, BACKENDS) for name in shared.get("backends", ()) if name not in BACKENDS
    ]
    _raise("the environment", faults)
    return Settings(shared=shared, own={key: value for key, value in file.items() if key in BACKENDS})


def _file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        said: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        fault = Fault(field=FILE, value=str(error), allowed="TOML", fix="mend that line")
        raise SpecError(f"{path.absolute()} is not TOML: {error}", faults=(fault,)) from error
    faults = [_unknown(key, key, (*SHARED, *BACKENDS)) for key in said if key not in (*SHARED, *BACKENDS)]
    for name in (one for one in BACKENDS if one in said):
        known = _arguments(name)
        faults += [_unknown(f"{name}.{key}", key, known) for key in said[name] if key not in known]
    for key in (one for one in LISTS if one in said):
        if not isinstance(said[key], list):
            fix = f'{key} = ["{said[key]}"]'
            faults.append(Fault(field=key, value=repr(said[key]), allowed="a list", fix=fix))
    _raise(str(path.absolute()), faults)
    return said


def _arguments(name: str) -> tuple[str, ...]:
    return tuple(key for key in inspect.signature(_class_of(name)).parameters if key not in _OBJECTS)


def _class_of(name: str) -> Any:
    module, kind = _HOMES[name]
    return getattr(import_module(module), kind)


def _unknown(field: str, word: str, known: tuple[str, ...]) -> Fault:
    near = difflib.get_close_matches(word, known, n=1)
    fix = f"did you mean {near[0]}?" if near else "leave it out"
    return Fault(field=field, value=repr(word), allowed=f"one of {', '.join(known)}", fix=fix)


def _raise(where: str, faults: list[Fault]) -> None:
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise SpecError(f"{where} has {len(faults)} fault(s):\n{text}", faults=tuple(faults))
