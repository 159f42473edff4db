"""Cuts a failing schedule down: what can go while the same law still breaks, goes."""

import attrs


def shrunk(schedule, run):
    """The smallest schedule found that breaks a law that this one breaks; itself where it breaks none."""
    laws = {one.law for one in run(schedule).truth.violations}
    if not laws:
        return schedule

    def still(candidate):
        return bool(laws & {one.law for one in run(candidate).truth.violations})

    while True:
        smaller = next((one for one in _smaller(schedule) if still(one)), None)
        if smaller is None:
            return schedule
        schedule = smaller


def _smaller(schedule):
    """Schedules with one thing less, what matters most first."""
    for field in ("clients", "mishaps", "happenings", "stock"):
        values = getattr(schedule, field)
        for at in range(len(values) - 1, -1, -1):
            if field != "clients" or len(values) > 1:
                yield attrs.evolve(schedule, **{field: values[:at] + values[at + 1 :]})
    for at, client in enumerate(schedule.clients):
        for less in range(len(client.acts) - 1, -1, -1):
            acts = client.acts[:less] + client.acts[less + 1 :]
            yield _with(schedule, at, attrs.evolve(client, acts=acts))
        if client.clock_off_s:
            yield _with(schedule, at, attrs.evolve(client, clock_off_s=0.0))
    plain = {
        "nodes": 1,
        "restarts": 0,
        "wait_s": 0,
        "lag_s": 0.0,
        "quota": 1000,
        "ends": ("done",),
        "rolls_back": True,
    }
    for field, value in plain.items():
        if getattr(schedule, field) != value:
            yield attrs.evolve(schedule, **{field: value})


def _with(schedule, at, client):
    clients = schedule.clients
    return attrs.evolve(schedule, clients=(*clients[:at], client, *clients[at + 1 :]))
