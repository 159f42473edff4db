"""Schedules of clients that may do what the table of permissions says, and of clients that lack one of it."""

import attrs

from gputrain.backends.compute.preflight import NEEDS as COMPUTE
from gputrain.backends.vertex.preflight import NEEDS as VERTEX
from tests.simulation.draws import drawn
from tests.simulation.named import _calm, _client

NEEDS = {"compute": COMPUTE, "vertex": VERTEX}
STORY = ("submit", "look", "jobs", "cancel", "submit", "clean up")
DRAWN = 4
"""Schedules by the dice beside the calm one."""


def lacking():
    """Backend, the permission that is missing (none, first), and the schedules."""
    for backend, needs in NEEDS.items():
        whole = {need.name for need in needs}
        for missing in ("", *sorted(whole)):
            calm = _calm(backends=(backend,), nodes=2, ends=("done",), clients=(_client("A", *STORY),))
            seeds = (drawn(seed, (backend,)) for seed in range(DRAWN))
            may = frozenset(whole - {missing})
            yield backend, missing, [attrs.evolve(one, may=may) for one in (calm, *seeds)]


def show(lived):
    """A line for each permission: whether it was named, and how many of its schedules broke a law.

    The calm schedule of whoever has them all meets no error; one that lacks one is told which.
    """
    broken = 0
    print(f"{'permission':43} | {'backend':7} | schedules | violations | named")
    roles = {need.name: need.role for need in (*COMPUTE, *VERTEX)}
    for backend, missing, schedules in lacking():
        worlds = [lived(one) for one in schedules]
        found = [one for world in worlds for one in world.truth.violations]
        errors = [act.error for act in worlds[0].truth.acts if act.error]
        is_told = all(_names(error, missing, roles) for error in errors) if missing else not errors
        named = "not needed" if not errors else "yes" if is_told else f"no: {errors}"
        broken += bool(found) or not is_told
        told = f"{missing or '(all of them)':43} | {backend:7} | {len(worlds):9} | {len(found):10} | {named}"
        print("\n".join([told, *(f"    {one.law}: {one.what[-400:]}" for one in found)]))
    return 1 if broken else 0


def _names(error, permission, roles):
    """Google names the role in place of the permission where an account may not be used."""
    return permission in error or roles[permission] in error
