"""What a backend can do, told by what it has: nothing of it is misspelt, nothing of the core is missing."""

from __future__ import annotations

from collections.abc import Iterable

from gputrain.backends.base import (
    Attaches,
    Backend,
    BuildsImages,
    CleansUp,
    Completes,
    OpensShells,
    Preflights,
    SendsCode,
    SpeaksGcloud,
    TellsQuotas,
    Tidies,
)
from gputrain.backends.recorder import KeepsRecords
from gputrain.backends.stacks import AsksForStacks

ABILITIES: tuple[type, ...] = (
    Attaches,
    BuildsImages,
    Completes,
    SendsCode,
    KeepsRecords,
    Tidies,
    CleansUp,
    Preflights,
    TellsQuotas,
    OpensShells,
    AsksForStacks,
    SpeaksGcloud,
)
"""What a backend may be able to do beyond `Backend`."""


def members(protocol: type) -> frozenset[str]:
    """The names that a protocol asks for.

    >>> sorted(members(CleansUp))
    ['clean_up', 'orphans']
    """
    return frozenset(name for name in vars(protocol) if not name.startswith("_"))


def lacks(backend: object) -> tuple[str, ...]:
    """What a value lacks to be a `Backend`; empty for one that is. No property is asked.

    >>> class Slurm:
    ...     find = ()
    >>> "find (a method)" in lacks(Slurm)
    True
    """
    missing = members(Backend) - set(dir(backend))
    return tuple(sorted(missing | _misfits(backend, Backend, members(Backend) - missing)))


def strays(backend: object) -> tuple[str, ...]:
    """Public names of a backend that nobody will ever call: misspelt, or one half of an ability.

    A backend's own tests assert that there are none.

    >>> from gputrain.backends.local import Local
    >>> strays(Local())
    ()
    """
    has = {name for name in dir(backend) if not name.startswith("_")}
    named = [one for one in (Backend, *ABILITIES) if members(one) <= has]
    whole = [members(one) for one in named if not _misfits(backend, one, members(one))]
    return tuple(sorted(has.difference(*whole)))


def _misfits(backend: object, protocol: type, names: Iterable[str]) -> set[str]:
    """Those of these names that are no method where one is due, or one where a property is."""
    kind = backend if isinstance(backend, type) else type(backend)  # where a property tells nothing yet
    there = {name: getattr(kind, name) if hasattr(kind, name) else getattr(backend, name) for name in names}
    due = {name: "a property" if isinstance(vars(protocol)[name], property) else "a method" for name in names}
    return {f"{name} ({due[name]})" for name in there if callable(there[name]) != (due[name] == "a method")}
