"""One schedule: who does what, and what befalls them; a value that can be kept, and cut down."""

import attrs

DAY_S = 86400.0


@attrs.frozen(kw_only=True)
class Act:
    """Something that a client does: submit, watch, look, cancel, attach, jobs, clean up, supervise, pause."""

    name: str
    seconds: float = 0.0


@attrs.frozen(kw_only=True)
class Client:
    """One process of a user's."""

    name: str
    starts_s: float
    clock_off_s: float
    acts: tuple[Act, ...]
    backends: tuple[str, ...] = ()
    """Of its trainer; empty: those of the schedule."""


@attrs.frozen(kw_only=True)
class Mishap:
    """What befalls one request: the one of that number, of all of a client's or of those on something."""

    client: str
    number: int
    kind: str
    on: str = ""
    """Words that its method and address hold: ``POST /bulkInsert``."""
    seconds: float = 0.0
    status: int = 0
    lasts_s: float = 0.0
    """So long it befalls all that come after on the same, or"""
    befalls: str = ""
    """on something else."""
    fault: object = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class Happening:
    """What befalls a client, a VM or the clouds at a moment."""

    at_s: float
    kind: str
    client: str = ""
    pick: float = 0.0
    seconds: float = 0.0


@attrs.frozen(kw_only=True)
class Schedule:
    """All that is drawn but for the turns, whose dice have the same seed."""

    seed: int
    backends: tuple[str, ...]
    nodes: int
    model: str
    limit_s: int
    wait_s: int
    restarts: int
    rolls_back: bool
    lag_s: float
    stock: tuple[tuple[str, int], ...]
    quota: int
    ends: tuple[str, ...]
    clients: tuple[Client, ...]
    mishaps: tuple[Mishap, ...]
    happenings: tuple[Happening, ...]
    false_starts: bool = False
    """Whether Google's queue makes VMs that it removes again, because there is no room for all."""
