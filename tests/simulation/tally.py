"""What many schedules came to: a table of the laws, and how far the schedules reached."""

import collections
import textwrap
import time

from tests.simulation.laws import LAWS


class Tally:
    """Counts schedules as they end."""

    def __init__(self):
        self.broken = collections.defaultdict(list)
        self.reached = collections.Counter()
        self.count = 0
        self.slowest = (0.0, None)
        self.longest = (0.0, -1, "")
        """The call that took the most of its bound: the share, the seed, and what it was."""
        self._began = time.perf_counter(), time.process_time()

    def add(self, seed, world, took_s):
        """Take in a schedule that has been lived."""
        self.count += 1
        self.slowest = max(self.slowest, (took_s, seed))
        for share, told in world.truth.waits:
            self.longest = max(self.longest, (share, seed, told))
        self.reached.update(reached(world))
        for one in world.truth.violations:
            self.broken[one.law].append((seed, one.what))

    def __str__(self):
        took_s, cpu_s = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        lines = [f"{'law':33} | schedules | violations | slowest seed"]
        for law in LAWS:
            seeds = list(dict.fromkeys(seed for seed, _ in self.broken[law]))
            slowest = f"{self.slowest[1]} ({self.slowest[0]:.2f} s)"
            if law == "no wait beyond its bound":
                slowest = f"{self.longest[1]}"
            lines.append(f"{law:33} | {self.count:9} | {len(seeds):10} | {slowest}")
            lines += [f"    seeds {' '.join(map(str, seeds[:20]))}"] if seeds else []
            lines += [f"    seed {seed}: {what[-700:]}" for seed, what in self.broken[law][:3]]
        lines += ["", f"longest wait for its bound: {self.longest[2]} (seed {self.longest[1]})"]
        told = ", ".join(f"{what} {count}" for what, count in sorted(self.reached.items()))
        lines += textwrap.wrap(f"of {self.count} schedules: {told}", 80)
        speed = f"{self.count / took_s:.1f} schedules a second"
        speed += f", {self.count / cpu_s:.1f} a second of the processor"
        return "\n".join([*lines, speed])


def reached(world):
    """What came to pass in a schedule, in a few words."""
    acts, process = world.truth.acts, [one.process for one in world.clients]
    rows = world.cloud.ledger.rows
    made = {row.event for row in rows if world.job_id in f"{row.resource} {row.detail}"}
    nonces = {one.nonce for one in world.truth.trainings}
    told = {
        "machines made": "create" in made,
        "ranks ran": bool(world.truth.trainings),
        "asked again": len(nonces) > 1,
        "a client killed": any(one.is_dead for one in process),
        "a Ctrl-C met": any(act.error.startswith("KeyboardInterrupt") for act in acts),
        "a cancel returned": any(act.name == "cancel" and not act.error for act in acts),
        "a place had no room": "fail" in made or any("NoPlacement" in act.error for act in acts),
        "a gang queued": any(row.event == "create" and "/resizeRequests/" in row.resource for row in rows),
        "a queue served": any(one.vm.model == "FLEX_START" for one in world.guests.by_vm.values()),
        "an end was told": any(one.state in ("succeeded", "failed", "cancelled") for one in world.truth.told),
    }
    return [what for what, holds in told.items() if holds]
