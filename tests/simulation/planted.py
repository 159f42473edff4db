"""Faults planted back into gputrain's source as it is loaded, to see that the laws see them.

    python -m tests.simulation --plant "a clear that trusts a list" --seeds 0:2000

Nothing is written: a module's text is changed on its way from the file to the interpreter.
"""

import importlib.machinery
import sys

from tests.planted.plant import Plant

PLANTS = (
    Plant(
        name="a clear that trusts a list",
        file="gputrain/backends/compute/gang.py",
        text="        singly = (self.calls.instance(gang.zone, name) for name in gang.names"
        " if name not in listed)\n",
        instead="        singly = ()\n"
        "        found = self.calls.instances(gang.zone, f'labels.{LABEL_GANG}={gang.nonce}').seen\n"
        "        listed = {str(vm['name']): vm for vm in found if gang.owns(vm)}\n",
    ),
    Plant(
        name="a record removed although nobody knows",
        file="gputrain/trainer/placing.py",
        text="        if reason is not StopReason.UNCLEAR:",
        instead="        if True:",
    ),
    Plant(
        name="a refusal that is believed after a lost answer",
        file="gputrain/backends/compute/sends.py",
        text="yield lambda: self.note(nonce)",
        instead="yield lambda: None",
    ),
    Plant(
        name="a cancel that lets others start it again",
        file="gputrain/backends/google.py",
        text="        return ended(self.board, job_id, CANCELLED)\n",
        instead="        return self.board.read(job_id)\n",
    ),
    Plant(
        name="a cancel that ends no job beside the first",
        file="gputrain/backends/vertex/backend.py",
        text="        for seen in live:\n            identity.end(self._jobs, seen)\n",
        instead="        for seen in live[1:]:\n            identity.end(self._jobs, seen)\n",
    ),
    Plant(
        name="two machines' clocks compared",
        file="gputrain/records/bucket.py",
        text="return _dated(record, stored)",
        instead="own_s = self._access.now() - stored.updated.timestamp()\n"
        "        return attrs.evolve(_dated(record, stored), age_s=own_s)",
    ),
    Plant(
        name="no waiting for a job whose answer was lost",
        file="gputrain/backends/vertex/identity.py",
        text="made is not None or waited >= SETTLE_S",
        instead="True",
    ),
    Plant(
        name="a turn that is taken at once",
        file="gputrain/trainer/placing.py",
        text="            if record.age_s >= asked.turn_s and self._goes_on(record, asked):\n",
        instead="            self._claim.answer(Outcome.UNCLEAR.value)\n            if True:\n",
    ),
    Plant(
        name="a late list that proves a withdrawal",
        file="gputrain/backends/vertex/recorder.py",
        text="return bool(found) and self._are_all(record, len(found))",
        instead="return True",
    ),
    Plant(
        name="a Ctrl-C that forgets and does not withdraw",
        file="gputrain/trainer/climb.py",
        text="            is_gone = clear(self._around, backend, request, record)\n",
        instead="            is_gone = True\n",
    ),
    Plant(
        name="a Ctrl-C that does not note what it takes back",
        file="gputrain/trainer/climb.py",
        text="self._claim.withdraw(goes_on=not",
        instead="dict(goes_on=not",
    ),
    Plant(
        name="a clean-up that takes what others own",
        file="gputrain/backends/compute/cleanup.py",
        text='f"{ours()} AND labels.{LABEL_HOME}={home}"',
        instead="ours()",
    ),
    Plant(
        name="jobs of others taken for one's own",
        file="gputrain/backends/vertex/whereabouts.py",
        text="return not (seen.home and self._home) or seen.home == self._home",
        instead="return True",
    ),
    Plant(
        name="a delete that was refused counts as done",
        file="gputrain/backends/compute/gang.py",
        text="                except AccessError as error:  # noqa: PERF203  # the others may be deleted\n"
        "                    denied[name] = error\n"
        "                except (RequestError, TransientError):  # on its way out, or the service is away\n"
        "                    continue\n",
        instead="                except GputrainError:\n                    del left[name]\n",
    ),
    Plant(
        name="a list of nothing that is a job",
        file="gputrain/gcp/credentials.py",
        text='        session.hooks["response"].append(_check)\n',
        instead="",
    ),
    Plant(
        name="a cancel that believes the end of what never began",
        file="gputrain/backends/compute/backend.py",
        text='if is_over and "queue" not in seen.raw and self._recorder.has_come(record):',
        instead="if is_over:",
    ),
    Plant(
        name="waits by a date that is set back",
        file="gputrain/times.py",
        text="return max(self._now() - date, self._monotonic() - steady)",
        instead="return self._now() - date",
    ),
    Plant(
        name="a create without a limit",
        file="gputrain/backends/compute/render.py",
        text='        "maxRunDuration": {"seconds": str(limit_s)},\n',
        instead="",
    ),
)


class Finder:
    """Finds the one module of a plant, and plants."""

    def __init__(self, plant):
        self._plant = plant

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002  # as it is called
        if name != self._plant.module:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        found.loader = Loader(name, found.origin, self._plant)
        return found


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from its changed text."""

    def __init__(self, name, path, plant):
        super().__init__(name, path)
        self._plant = plant

    def get_code(self, fullname):
        return compile(self._plant.planted(self.get_source(fullname)), self.path, "exec")


def plant(name):
    """Load gputrain with that fault; before the first of it is loaded."""
    chosen = next(one for one in PLANTS if one.name == name)
    sys.meta_path.insert(0, Finder(chosen))
