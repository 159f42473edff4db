"""One schedule: who does what, and what befalls them; a value that can be kept, and cut down."""

import attrs

DAY_S = 86400.0


@attrs.frozen(kw_only=True)
class Act:
    """Something that a client does: submit, watch, look, cancel, attach, jobs, clean up, supervise, pause."""

    name: str
    seconds: float = 0.0

    def __str__(self):
        return f"{self.name} {self.seconds:g} s" if self.seconds else self.name


@attrs.frozen(kw_only=True)
class Client:
    """One process of a user's."""

    name: str
    starts_s: float
    clock_off_s: float
    acts: tuple[Act, ...]
    backends: tuple[str, ...] = ()
    """Of its trainer; empty: those of the schedule."""

    def __str__(self):
        acts = ", ".join(map(str, self.acts))
        only = f", with {' and '.join(self.backends)} alone" if self.backends else ""
        return f"{self.name}, from {self.starts_s:g} s, its clock off by {self.clock_off_s:g} s{only}: {acts}"


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

    def __str__(self):
        more = f" {self.seconds:g} s" if self.seconds else f" {self.status}" if self.status else ""
        more += f" {type(self.fault).__name__}" if self.fault is not None else ""
        more += f", {self.befalls} for {self.lasts_s:g} s" if self.lasts_s else ""
        return f"request {self.number} of {self.client} {self.on}: {self.kind}{more}"


@attrs.frozen(kw_only=True)
class Happening:
    """What befalls a client, a VM or the clouds at a moment."""

    at_s: float
    kind: str
    client: str = ""
    pick: float = 0.0
    seconds: float = 0.0

    def __str__(self):
        return f"at {self.at_s:g} s: {self.kind} {self.client} {self.seconds or ''}".rstrip()


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
    may: frozenset[str] | None = None
    """The permissions of the clients; None for an owner's."""

    def __str__(self):
        world = (
            f"seed {self.seed}: {'+'.join(self.backends)}, {self.nodes} nodes, {self.model}, "
            f"limit {self.limit_s} s, waits {self.wait_s} s, {self.restarts} restarts, "
            f"guests {'/'.join(self.ends)}, lists lag {self.lag_s:g} s, "
            f"Google {'rolls back' if self.rolls_back else 'does not roll back'}, "
            f"stock {dict(self.stock) or 'plenty'}, quota {self.quota}"
            f"{', the queue makes VMs too early' if self.false_starts else ''}"
        )
        return "\n  ".join([world, *map(str, (*self.clients, *self.mishaps, *self.happenings))])
