"""Where a command runs: flags first, then the environment, then ``gputrain.toml`` in the current folder."""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs

from gputrain import fields
from gputrain.backends import registry, seam
from gputrain.backends.base import Backend, JobRef
from gputrain.errors import SpecError
from gputrain.fields import FaultCollector, Field

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "gputrain.toml"
LARGEST = 1 << 20
"""Bytes of it that are read."""
LISTS = ("backends", "regions")
ROWS = {
    "backends": Field(fields.many(fields.text), "a list of names", 'backends = ["compute", "local"]'),
    "regions": Field(fields.many(fields.text), "a list of regions", 'regions = ["us-central1"]'),
    "project": Field(fields.text, "a project's id", 'project = "my-project"'),
    "bucket": Field(fields.text, "gs://bucket or gs://bucket/prefix", 'bucket = "gs://my-bucket"'),
    "image_repository": Field(
        fields.text, "a repository", 'image_repository = "us-central1-docker.pkg.dev/PROJECT/NAME"'
    ),
    "service_account": Field(fields.text, "an e-mail address", 'service_account = "NAME@PROJECT.iam...com"'),
    "endpoint": Field(fields.text, "the address of an emulator", 'endpoint = "http://127.0.0.1:8080"'),
}
"""What backends share: a flag, a variable ``GPUTRAIN_...`` and a key of the file for each."""
SHARED = tuple(ROWS)
_HANDED = tuple(name for name in ROWS if name not in ("backends", "endpoint"))
"""Those that are a backend's own arguments; the others say which, and where Google is."""
_OBJECTS = frozenset({"endpoints", "credentials", "progress", "sleep", "now"})
"""Arguments of a backend that no file can hold."""


@attrs.frozen(kw_only=True)
class CliSettings:
    """What flags, environment and file say together."""

    shared: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]]
    """The sections of the file: more arguments of one backend."""

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends, in order of preference; ``local`` unless said."""
        return tuple(self.shared.get("backends") or ("local",))

    @property
    def scope(self) -> str:
        """Where a list looked, for whoever expected more."""
        others = [f"{name} (--backend {name})" for name in registry.names() if name not in self.backends]
        there = f"looked at {' and '.join(self.backends)}"
        return f"{there}; not at {' or '.join(others)}" if others else there

    @property
    def reach(self) -> dict[str, Any]:
        """What points a cloud backend at an emulator; empty for Google itself."""
        if not self.shared.get("endpoint"):
            return {}
        from gputrain.gcp.endpoints import reach

        return reach(self.shared["endpoint"])

    def make(self) -> list[Backend]:
        """The backends.

        Raises:
            SpecError: something that one needs is missing or wrong.
        """
        return [self._make(name) for name in self.backends]

    def backend_of(self, ref: JobRef) -> Backend:
        """The backend that a job's name speaks of: the one that is set up, or one made from the name.

        The one that is set up may be of another project or bucket than the job.

        Raises:
            SpecError: there is none of that kind.
        """
        if ref.backend in self.backends:
            own = self._make(ref.backend)
            with suppress(SpecError):
                seam.check_ref(own, ref)
                return own
        return registry.of_ref(ref, **self.reach)

    def _make(self, name: str) -> Backend:
        """One backend, with as much of what is shared as it takes, and what its own section says."""
        kind = registry.find(name)
        handed = {key: self.shared.get(key) for key in _HANDED}
        said = {**handed, **self.reach, **self.own.get(name, {})}
        said = {key: value for key, value in said.items() if value is not None}
        given = registry.accepted(name, kind, said)
        faults = FaultCollector(f"what is said of {name}")
        for key in registry.takes(kind).needed:
            faults.check(key in given, key, None, "needed", _said(name, key))
        faults.raise_if_any()
        mend = f"mend what is said of it under [{name}] in {FILE}, or tell whoever wrote it"

        def make() -> Backend:
            try:
                return kind(**given)
            except SpecError as error:
                fields = (one.field for one in error.faults if not one.field.startswith("$"))  # no variables
                error.fix = "; ".join(_said(name, field) for field in fields)
                raise

        return registry.made(name, make, "its settings", mend, endpoints=said.get("endpoints"))


def read(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> CliSettings:
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
    return CliSettings(shared=shared, own={key: value for key, value in file.items() if key not in SHARED})


def _file(path: Path) -> dict[str, Any]:
    try:
        said: dict[str, Any] = tomllib.loads(_content(path).decode())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        why = "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SpecError(f"{path.absolute()} is not TOML", why=why, fix="mend that line") from error
    except OSError as error:
        what, fix = f"{path.absolute()} cannot be read", "let it be a file of your own"
        raise SpecError(what, why=error.strerror or "", fix=fix) from error
    faults = FaultCollector(str(path.absolute()))
    sections = {name: section for name, section in said.items() if name not in SHARED}
    for name, section in sections.items():
        _check_section(name, section, faults)
    shared = fields.read(ROWS, {name: said[name] for name in SHARED if name in said}, faults)
    faults.raise_if_any()
    return {**shared, **sections}


def _content(path: Path) -> bytes:
    """What the file holds; it may be a colleague's, but none that was put in our way. Raises OSError."""
    patience = getattr(os, "O_NONBLOCK", 0)  # a FIFO would hold us for ever; Windows has none, and no owners
    with open(os.open(path, os.O_RDONLY | patience), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        is_mine = facts.st_uid in (getattr(os, "geteuid", int)(), 0)
        if not is_mine and os.stat(path.parent).st_mode & stat.S_IWOTH:
            raise OSError(errno.EPERM, "somebody else put it into a folder that everybody may write")
        return file.read(LARGEST)


def _check_section(name: str, section: object, faults: FaultCollector) -> None:
    """A key of the file that is no shared one must be the section of a backend."""
    backends = registry.names()
    if name not in backends:
        _unknown(name, name, (*SHARED, *backends), faults)
        return
    if not isinstance(section, dict):
        faults.add(name, section, "a section", f"[{name}] on a line of its own, and its keys below it")
        return
    takes = registry.takes(registry.find(name))
    known = [key for key in takes.names if key not in _OBJECTS]
    for key in (one for one in section if one in _OBJECTS or not takes.take(one)):
        _unknown(f"{name}.{key}", key, known, faults)


@lru_cache(maxsize=1)
def sections() -> Mapping[str, tuple[str, ...]]:
    """What has no flag, and so stands in the file: argument -> the backends whose section it stands in."""
    found: dict[str, list[str]] = {}
    for name in registry.names():
        try:
            takes = registry.takes(registry.find(name))
        except SpecError:  # somebody else's, which cannot be loaded
            continue
        for argument in (one for one in takes.names if one not in _OBJECTS and one not in SHARED):
            found.setdefault(argument, []).append(name)
    return {argument: tuple(names) for argument, names in found.items()}


def _said(name: str, argument: str) -> str:
    """Where an argument of a backend is said."""
    if argument not in _HANDED:
        return f"{argument} = ... under [{name}] in {FILE}"
    flag = argument.removesuffix("s") if argument in LISTS else argument
    return f"--{flag.replace('_', '-')}, GPUTRAIN_{argument.upper()} or {argument} = ... in {FILE}"


def _unknown(field: str, word: str, known: Sequence[str], faults: FaultCollector) -> None:
    near = difflib.get_close_matches(word, known, n=1)
    fix = f"did you mean {near[0]!r}?" if near else "leave it out"
    faults.add("key", field, f"one of {', '.join(map(repr, known))}", fix)
