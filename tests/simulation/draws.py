"""The schedule of a seed: who does what and what befalls them, by the dice."""

import random

import attrs

from gputrain_emulator import faults
from tests.simulation.schedule import DAY_S, Act, Client, Happening, Mishap, Schedule

STATUSES = (403, 404, 409, 412, 429, 500, 503)


def drawn(seed, backends=("compute", "vertex", "both")):
    """The schedule of a seed."""
    dice = random.Random(f"schedule {seed}")
    found = dice.choice(backends)
    theme = dice.choice(THEMES if found == "vertex" else (*THEMES, QUEUE))
    names = {"both": ("vertex", "compute")}.get(found, (found,)) if theme is not QUEUE else ("compute",)
    watches = (60.0, 200.0, 600.0) if names == ("compute",) else (20.0, 60.0, 200.0)
    clients = _clients(dice, theme, watches)
    restarts, waits = theme.name == "restart", theme is QUEUE
    models = {"restart": ("spot",), "queue": ("flex-start",)}
    return Schedule(
        seed=seed,
        backends=names,
        nodes=dice.choice((2, 2, 4) if waits else (1, 1, 2, 4)),
        model=dice.choice(models.get(theme.name, ("standard", "standard", "spot", "spot", "flex-start"))),
        limit_s=dice.choice((600, 1800)),
        wait_s=dice.choice((0, 300, 300) if waits else (0, 0, 0, 300)),
        restarts=dice.choice((1, 3)) if restarts else dice.choice((0, 0, 1)),
        rolls_back=dice.random() < 0.5,
        lag_s=dice.choice((0.0, 0.0, 10.0, 60.0)),
        stock=_stock(dice, 0.2 if waits else 0.5, 1.0 if waits else 0.7),
        quota=dice.choice((1000, 1000, 1000, 1)),
        ends=dice.choice(ENDS if theme.name != "cancel" else (*ENDS, ("hangs",), ("hangs", "done"))),
        clients=clients,
        mishaps=_mishaps(dice, clients, theme, names),
        happenings=_happenings(dice, clients, theme),
        false_starts=waits and dice.random() < 0.3,
    )


@attrs.frozen(kw_only=True)
class Theme:
    """What a schedule is about: where its mishaps fall, and what its clients like to do."""

    name: str
    acts: tuple[str, ...]
    on: tuple[str, ...]
    happenings: tuple[str, ...]
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


_ANY = ("kill", "ctrl-c", "ctrl-c", "clock jumps", "preempt", "host error", "delete")
THEMES = (
    Theme(
        name="any", on=("",), happenings=_ANY,
        acts=("watch", "watch", "look", "cancel", "jobs", "clean up", "supervise", "submit"),
    ),
    Theme(
        name="create", on=("/bulkInsert", "/customJobs", "/operations", "/instances", "records%2F"),
        writes=("POST /bulkInsert", "POST /customJobs", "POST records%2F"),
        reads=("GET /operations", "GET /instances", "GET /customJobs", "GET records%2F", "GET "),
        acts=("look", "submit", "submit", "jobs"), happenings=("kill", "ctrl-c", "clock jumps", "delete"),
    ),
    Theme(
        name="restart", on=("/bulkInsert", "/instances", "records%2F", "status-"),
        writes=("POST /bulkInsert", "POST records%2F", "DELETE /instances"),
        reads=("GET /operations", "GET /instances", "GET records%2F", "GET "),
        acts=("watch", "watch", "supervise"), happenings=("preempt", "preempt", "kill", "host error"),
    ),
    Theme(
        name="cancel", on=(":cancel", "DELETE", "/instances", "records%2F", "status-"),
        writes=("POST :cancel", "DELETE /instances", "POST records%2F"),
        reads=("GET /instances", "GET /customJobs", "GET records%2F", "GET "),
        acts=("cancel", "cancel", "watch", "submit"), happenings=("ctrl-c", "kill", "preempt"),
    ),
)  # fmt: skip
QUEUE = Theme(
    name="queue", on=("/resizeRequests", "/instanceGroupManagers", "/instanceTemplates", "/instances"),
    writes=("POST /resizeRequests", "POST /instanceGroupManagers", "POST /instanceTemplates",
            "DELETE /instanceGroupManagers", "DELETE /instanceTemplates", "POST /cancel"),
    reads=("GET /operations", "GET /resizeRequests", "GET /instances", "GET /instanceTemplates", "GET "),
    acts=("watch", "watch", "look", "cancel", "submit", "supervise", "clean up"),
    happenings=("room", "room", "room", "delete group", "cancel request", "kill", "ctrl-c", "host error"),
)  # fmt: skip
"""A gang that waits in Google's flex-start queue."""


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


def _mishaps(dice, clients, theme, backends):
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
        if theme.writes and dice.random() < 0.5:
            absent = ABSENT.get(backends, ("none",))
            writes = [one for one in theme.writes if not any(word in one for word in absent)]
            found += _blow(dice, client.name, writes, theme.reads)
    return tuple(found)


ENDS = (("done",), ("done", "done", "fails"), ("done", "dies", "hangs", "mute", "no boot"))
LOST = ("lost after", "fails after", "cut", "doubled")
BLOWS = (
    "refused then", "refused then", "blind then", "lags then", "gone", "late", "ends", "down", "down", "dies",
    "forbidden", "forbidden", "deaf",
)  # fmt: skip


ABSENT = {("compute",): ("customJobs", ":cancel"), ("vertex",): ("bulkInsert", "/instances")}
"""What is never sent where there is one backend."""


def _blow(dice, client, writes, reads):
    """Several mishaps that belong together, where they hurt: at a write whose answer does not come."""
    on, number, status = dice.choice(writes), int(dice.expovariate(2.0)), dice.choice((403, *STATUSES, 403))

    def strikes(kind, at=0, **more):
        return Mishap(client=client, number=number + at, kind=kind, on=on, **more)

    lasts_s = dice.choice((30.0, 120.0, 600.0))
    lost, again = strikes(dice.choice(LOST)), dice.choice((1, 1, 3))
    blow = dice.choice(BLOWS)
    if blow == "refused then":
        return [lost, *(strikes("refused", 1 + more, status=status) for more in range(again))]
    if blow == "blind then":
        kind = dice.choice(("refused", "lost before"))
        befalls = dice.choice(reads)
        return [lost, strikes(kind, befalls=befalls, status=status, lasts_s=lasts_s)]
    if blow == "lags then":
        lag = faults.named("lag", seconds=60.0)
        return [lost, strikes("sees", befalls="GET", fault=lag, lasts_s=lasts_s)]
    if blow == "gone":  # its sender dies while it is on its way, and it comes late
        return [strikes("kill sent"), strikes("late there", seconds=dice.choice((5.0, 20.0, 70.0, 150.0)))]
    if blow == "late":
        return [strikes("late there", seconds=dice.choice((20.0, 70.0, 150.0)))]
    if blow == "ends":  # a Ctrl-C once it was sent, or while it is asked again
        return [lost, strikes("ctrl-c sent", dice.choice((0, 0, 1)))]
    if blow == "forbidden":  # a role that lacks it
        return [strikes("refused", status=403, lasts_s=600.0)]
    if blow == "deaf":  # no answer comes, and nobody lets it look
        blind = strikes("refused", befalls=dice.choice(reads), status=403, lasts_s=600.0)
        return [strikes("lost after", lasts_s=600.0), blind]
    if blow == "down":
        kind = dice.choice(("refused", "lost before", "lost after"))
        return [strikes(kind, status=status, lasts_s=lasts_s)]
    return [lost, strikes(dice.choice(("kill sent", "kill before")), dice.choice((0, 1)))]


def _view(dice):
    name = dice.choice(("lag", "unreachable", "half-list"))
    details = {"lag": {"seconds": 60.0}, "unreachable": {"zone": "us-central1-a"}}.get(name, {})
    return faults.named(name, **details)


def _happenings(dice, clients, theme):
    found = []
    for _ in range(dice.choice((0, 0, 1, 2, 3)) or (theme.name in ("restart", "queue"))):
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


def _stock(dice, plenty, named):
    """VMs that zones have: what is not named is plenty."""
    if dice.random() < plenty:
        return ()
    zones = ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
    return tuple((zone, dice.choice((0, 1, 3))) for zone in zones if dice.random() < named)
