"""One schedule: who does what, and what befalls them; drawn from a seed, and a value that can be cut down."""

import random

import attrs

from gputrain_emulator import fault_names

STATUSES = (403, 404, 409, 412, 429, 500, 503)
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

    def __str__(self):
        acts = ", ".join(map(str, self.acts))
        return f"{self.name}, from {self.starts_s:g} s, its clock off by {self.clock_off_s:g} s: {acts}"


@attrs.frozen(kw_only=True)
class Mishap:
    """What befalls one request: the one of that number, of all of a client's or of those on something."""

    client: str
    number: int
    kind: str
    on: str = ""
    seconds: float = 0.0
    status: int = 0
    fault: object = attrs.field(default=None, eq=False, repr=False)

    def __str__(self):
        more = f" {self.seconds:g} s" if self.seconds else f" {self.status}" if self.status else ""
        more += f" {type(self.fault).__name__}" if self.fault is not None else ""
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

    def __str__(self):
        world = (
            f"seed {self.seed}: {'+'.join(self.backends)}, {self.nodes} nodes, {self.model}, "
            f"limit {self.limit_s} s, waits {self.wait_s} s, {self.restarts} restarts, "
            f"guests {'/'.join(self.ends)}, lists lag {self.lag_s:g} s, "
            f"Google {'rolls back' if self.rolls_back else 'does not roll back'}, "
            f"stock {dict(self.stock) or 'plenty'}, quota {self.quota}"
        )
        return "\n  ".join([world, *map(str, (*self.clients, *self.mishaps, *self.happenings))])


def drawn(seed, backends=("compute", "vertex", "both")):
    """The schedule of a seed."""
    dice = random.Random(f"schedule {seed}")
    theme = dice.choice(THEMES)
    found = dice.choice(backends)
    names = {"both": ("vertex", "compute")}.get(found, (found,))
    watches = (60.0, 200.0, 600.0) if names == ("compute",) else (20.0, 60.0, 200.0)
    clients = _clients(dice, theme, watches)
    restarts = theme.name == "restart"
    return Schedule(
        seed=seed,
        backends=names,
        nodes=dice.choice((1, 1, 2, 4)),
        model="spot" if restarts else dice.choice(("standard", "spot")),
        limit_s=dice.choice((600, 1800)),
        wait_s=dice.choice((0, 0, 0, 300)),
        restarts=dice.choice((1, 3)) if restarts else dice.choice((0, 0, 1)),
        rolls_back=dice.random() < 0.5,
        lag_s=dice.choice((0.0, 0.0, 10.0, 60.0)),
        stock=_stock(dice),
        quota=dice.choice((1000, 1000, 1000, 1)),
        ends=dice.choice(
            (("done",), ("done", "done", "fails"), ("done", "dies", "hangs", "mute", "no boot"))
        ),
        clients=clients,
        mishaps=_mishaps(dice, clients, theme),
        happenings=_happenings(dice, clients, theme),
    )


@attrs.frozen(kw_only=True)
class Theme:
    """What a schedule is about: where its mishaps fall, and what its clients like to do."""

    name: str
    acts: tuple[str, ...]
    on: tuple[str, ...]
    happenings: tuple[str, ...]


_ANY = ("kill", "ctrl-c", "ctrl-c", "clock jumps", "preempt", "host error", "delete")
THEMES = (
    Theme(
        name="any", on=("",), happenings=_ANY,
        acts=("watch", "watch", "look", "cancel", "jobs", "clean up", "supervise", "submit"),
    ),
    Theme(
        name="create", on=("/bulkInsert", "/customJobs", "/operations", "/instances", "records%2F"),
        acts=("look", "submit", "submit", "jobs"), happenings=("kill", "ctrl-c", "clock jumps", "delete"),
    ),
    Theme(
        name="restart", on=("/bulkInsert", "/instances", "records%2F", "status-"),
        acts=("watch", "watch", "supervise"), happenings=("preempt", "preempt", "kill", "host error"),
    ),
    Theme(
        name="cancel", on=(":cancel", "DELETE", "/instances", "records%2F", "%2Fcancel"),
        acts=("cancel", "cancel", "watch", "submit"), happenings=("ctrl-c", "kill", "preempt"),
    ),
)  # fmt: skip


def _clients(dice, theme, watches):
    """One that submits, and others with the same key that come beside it or after it."""
    offs = (0.0, 0.0, 0.0, 60.0, -60.0, 600.0, -600.0, 3600.0, -3600.0, DAY_S, -DAY_S)
    made = []
    for number in range(dice.choice((1, 2, 2, 3))):
        acts = [Act(name="submit")] if number == 0 or dice.random() < 0.7 else [Act(name="attach")]
        for _ in range(dice.choice((1, 2, 3))):
            name = dice.choice(theme.acts)
            acts.append(Act(name=name, seconds=dice.choice(watches) if name == "watch" else 0.0))
        starts_s = dice.choice((0.0, 0.2, 1.0, 5.0, 60.0, 200.0, 400.0)) if number else 0.0
        made.append(
            Client(name="ABCD"[number], starts_s=starts_s, clock_off_s=dice.choice(offs), acts=tuple(acts))
        )
    return tuple(made)


KINDS = (
    "kill before", "kill sent", "ctrl-c before", "ctrl-c sent", "lost before", "lost after", "late there",
    "late back", "twice", "refused", "refused", "refused", "fails after", "cut", "doubled", "html", "list",
    "sees",
)  # fmt: skip
_ONCE = ("kill before", "kill sent")


def _mishaps(dice, clients, theme):
    found = []
    for client in clients:
        for _ in range(dice.choice((0, 1, 1, 2, 3, 5))):
            kind, on = dice.choice(KINDS), dice.choice(theme.on) if dice.random() < 0.7 else ""
            first = int(dice.expovariate(1.0)) if on else min(40, int(dice.expovariate(1 / 15)))
            status = dice.choice(STATUSES) if kind == "refused" else 0
            seconds = dice.choice((2.0, 20.0, 70.0, 150.0)) if kind.startswith("late") else 0.0
            fault = _view(dice) if kind == "sees" else None
            run = dice.choice((1, 1, 1, 2, 6)) if kind not in _ONCE else 1
            found += [
                Mishap(
                    client=client.name, number=first + more, kind=kind, on=on, status=status, seconds=seconds,
                    fault=fault,
                )
                for more in range(run)
            ]  # fmt: skip
        if theme.name != "any" and dice.random() < 0.3:
            found += _chain(dice, client, dice.choice(theme.on))
    return tuple(found)


def _chain(dice, client, on):
    """An answer that is lost, and what then befalls those who ask again."""
    first = int(dice.expovariate(1.0))
    kinds = [dice.choice(("lost after", "fails after", "cut", "doubled"))]
    kinds += [dice.choice(("refused", "refused", "lost before", "kill before", "ctrl-c sent"))] * dice.choice(
        (1, 3)
    )
    status = dice.choice(STATUSES)
    return [
        Mishap(
            client=client.name, number=first + more, kind=kind, on=on,
            status=status if kind == "refused" else 0,
        )
        for more, kind in enumerate(kinds)
    ]  # fmt: skip


def _view(dice):
    name = dice.choice(("lag", "unreachable", "half-list"))
    details = {"lag": {"seconds": 60.0}, "unreachable": {"zone": "us-central1-a"}}.get(name, {})
    return fault_names.named(name, **details)


def _happenings(dice, clients, theme):
    found = []
    for _ in range(dice.choice((0, 0, 1, 2, 3)) or (theme.name == "restart")):
        kind = dice.choice(theme.happenings)
        at_s = dice.choice((1.0, 8.0, 30.0, 60.0, 120.0, 400.0)) * dice.random()
        off_s = dice.choice((60.0, -60.0, 3600.0, -3600.0, DAY_S, -DAY_S))
        found.append(
            Happening(
                at_s=round(at_s, 2), kind=kind, pick=dice.random(),
                client=dice.choice(clients).name if kind in ("kill", "ctrl-c", "clock jumps") else "",
                seconds=off_s if kind == "clock jumps" else 0.0,
            )
        )  # fmt: skip
    return tuple(found)


def _stock(dice):
    """VMs that zones have: what is not named is plenty."""
    if dice.random() < 0.5:
        return ()
    zones = ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
    return tuple((zone, dice.choice((0, 1, 3))) for zone in zones if dice.random() < 0.7)
