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
        self.halves = []
        """Seconds that half a gang was there after the call that asked for it, and the seed."""
        self._began = time.perf_counter(), time.process_time()

    def add(self, seed, world, took_s):
        """Take in a schedule that has been lived."""
        self.count += 1
        self.slowest = max(self.slowest, (took_s, seed))
        for share, told in world.truth.waits:
            self.longest = max(self.longest, (share, seed, told))
        left = halves_left(world)
        if left:
            self.halves.append((max(left), seed))
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
        lines += ["", *self._times()]
        told = ", ".join(f"{what} {count}" for what, count in sorted(self.reached.items()))
        lines += textwrap.wrap(f"of {self.count} schedules: {told}", 80)
        speed = f"{self.count / took_s:.1f} schedules a second"
        speed += f", {self.count / cpu_s:.1f} a second of the processor"
        return "\n".join([*lines, speed])

    def _times(self):
        """The longest wait, and how soon half a gang was gone."""
        yield f"longest wait for its bound: {self.longest[2]} (seed {self.longest[1]})"
        if self.halves:
            ordered = sorted(self.halves)
            p99_s = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))][0]
            slowest = ", ".join(f"{seed} ({left_s:.0f} s)" for left_s, seed in ordered[:-4:-1])
            yield f"half a gang gone after the call: p99 {p99_s:.0f} s of {len(ordered)} schedules"
            yield f"    the slowest seeds: {slowest}"


def halves_left(world):
    """How long each half of a gang cost money after the last call had ended that may have asked for it.

    A client that was killed has ended no call: what it left is judged by the other laws.
    """
    found = []
    for since, until in world.cloud.ledger.halves():
        asked = [act.ended_at for act in world.truth.acts if act.began_at <= since <= act.ended_at]
        if asked:
            found.append(max(0.0, until - max(asked)))
    return found


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
