"""Faults planted into the source of gputrain or of its guests as it is loaded, to see that the laws see them.

    python -m tests.simulation --plant "what a list lacks is gone" --seeds 0:2000

Nothing is written: a module's text is changed on its way from the file to the interpreter.
"""

import importlib.machinery
import sys

from tests.planted.plant import Plant

PLANTS = (
    Plant(name="no swap", file="gputrain/jobstore/store.py",
          text="content, if_generation=version,",
          instead="content, if_generation=None,"),
    Plant(name="no boot check", file="tests/simulation/fences.py",
          text="        status, says = self.ask()\n        waited_s",
          instead="        status, says = 200, MINE\n        waited_s"),
    Plant(name="no claim", file="tests/simulation/job_guests.py",
          text="== me\n        ):",
          instead="!= me\n        ):"),
    Plant(name="terminate forgets one node", file="gputrain/backends/compute/vms.py",
          text="while left := self._there(vms):",
          instead="while left := {k: vm for k, vm in self._there(vms).items() if k != vms.names[-1]}:"),
    Plant(name="terminate at the first result", file="gputrain/orchestration/reconciler.py",
          text="    if lost_for_s >= may_take_s:\n",
          instead="    if lost_for_s >= 0:\n"),
    Plant(name="what a list lacks is gone", file="gputrain/backends/compute/status.py",
          text="            vm = self._calls.instance(vms.zone, name)\n",
          instead="            vm = None\n"),
    Plant(name="a cancel that is not written down", file="gputrain/orchestration/look.py",
          text="            stored = context.jobs.swap(record, stored.version)\n"
               "            if record.backend",
          instead="            if record.backend"),
    Plant(name="a Ctrl-C that is not written down", file="gputrain/orchestration/launcher.py",
          text="                self._swap(record.end(causes.WITHDRAWN.kind))\n",
          instead=""),
    Plant(name="two machines' clocks compared", file="gputrain/jobstore/store.py",
          text="age_s=found.age_s, content",
          instead="age_s=max(0.0, self.access.now() - found.updated.timestamp()), content"),
    Plant(name="a clean-up that takes what others own", file="gputrain/backends/compute/vms.py",
          text='self.calls.all_instances(f"labels.{LABEL_JOB}:* AND labels.{LABEL_OWNER}={self.home}")',
          instead='self.calls.all_instances(f"labels.{LABEL_JOB}:*")'),
    Plant(name="a clean-up that takes what a record names", file="gputrain/trainer/jobs.py",
          text="current.get(one.job_id) == one.attempt",
          instead="False"),
    Plant(name="a create without a limit", file="gputrain/backends/compute/request.py",
          text='        "maxRunDuration": {"seconds": str(limit_s)},\n',
          instead=""),
)  # fmt: skip


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
    """Load the code with that fault; before the first of it is loaded."""
    chosen = next(one for one in PLANTS if one.name == name)
    sys.meta_path.insert(0, Finder(chosen))
