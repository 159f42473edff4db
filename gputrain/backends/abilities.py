"""What a backend can do, told by what it has: nothing of it is misspelt, nothing of the core is missing."""

from __future__ import annotations

from gputrain.backends.base import (
    Attaches,
    Backend,
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

ABILITIES: tuple[type, ...] = (
    Attaches,
    Completes,
    SendsCode,
    KeepsRecords,
    Tidies,
    CleansUp,
    Preflights,
    TellsQuotas,
    OpensShells,
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
    """What a value lacks to be a `Backend`; empty for one that is. No property is asked."""
    return tuple(sorted(members(Backend) - set(dir(backend))))


def strays(backend: object) -> tuple[str, ...]:
    """Public names of a backend that nobody will ever call: misspelt, or one half of an ability.

    A backend's own tests assert that there are none.

    >>> from gputrain.backends.local import Local
    >>> strays(Local())
    ()
    """
    has = {name for name in dir(backend) if not name.startswith("_")}
    whole = [members(one) for one in (Backend, *ABILITIES) if members(one) <= has]
    return tuple(sorted(has.difference(*whole)))
