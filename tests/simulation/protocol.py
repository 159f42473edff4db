"""The protocol of docs/design/record.md in random schedules, over a store, clouds and guests of its own.

Clients run the real record and the real `decide`; what stands in for the launcher is as short as it can be.
``python -m tests.simulation.protocol 10000`` plays the seeds 0 to 9,999. A plant's name after it leaves a
rule out, and then some law has to break.
"""

import heapq
import itertools
import random
import sys

import attrs

from gputrain import causes
from gputrain.backends.base import Status
from gputrain.jobstore import Attempt, JobRecord, Launch, Option, Wanted
from gputrain.lifecycle import State
from gputrain.orchestration.reconciler import Adopt, End, Nothing, Replace, Retry, Rules, Terminate, decide

POLL_S, GRACE_S, SAVES_S, RUNS_S = 5, 30, 150, 20_000
"""How often guests ask, what ranks have to save, the longest that they take here, and the time limit."""
CANCELLED_WITHIN_S = GRACE_S + 155 + 60
FRESH_S = 20
"""How old a look or a write may be that is acted on: a laptop sleeps, and wakes in the middle."""

PLANTS = {
    "no swap": "a write needs not be over the version that was read",
    "no boot check": "a machine that boots does not ask whether it is current",
    "no poll": "a machine that runs never asks again",
    "no claim": "two jobs of one attempt both train",
    "no second read": "a launcher whose last write fails ends what it made",
    "no adoption": "a launch without a handle is replaced though it runs",
    "ends at the first result": "one lost node ends the others at once",
    "acts on old looks": "a process that slept acts on what it saw before",
    "another host is gone": "what another host runs counts as gone",
}


@attrs.define(eq=False)
class Group:
    """What one create made: the nodes of an attempt, or one job of it."""

    kind: str
    attempt: str
    host: int
    born: float
    shown_at: float
    nodes: list = attrs.field(factory=list)
    ended_with: str = ""
    first_lost: float | None = None
    has_run: bool = False
    starts: int = 0


@attrs.define(eq=False)
class Node:
    """booting, training, saving, ended (its machine is there, or has written how it ended), gone."""

    state: str = "booting"
    saving_since: float = 0.0
    hangs: bool = False
    """It neither asks nor saves any more."""


ALIVE = ("booting", "training", "saving")


class World:
    """The store, the clouds and their guests, and what they broke."""

    def __init__(self, seed, plant=""):
        self.random, self.plant, self.now = random.Random(seed), plant, 0.0
        self.events, self.count = [], itertools.count()
        self.record, self.version, self.written_at = None, 0, 0.0
        self.groups, self.claims, self.broken, self.late = [], {}, [], 0
        self.sends_late = self.random.random() < 0.5
        self.launching = set()
        kinds = self.random.sample(["vm", "vertex", "local"], self.random.randint(1, 3))
        self.options = tuple(Option(backend=kind, place=f"{kind}-1", region="r") for kind in kinds)

    def at(self, seconds, act):
        heapq.heappush(self.events, (self.now + max(seconds, 1e-6), next(self.count), act))

    def run(self, until):
        while self.events and self.events[0][0] <= until:
            self.now, _, act = heapq.heappop(self.events)
            act()
        self.now = max(self.now, until)

    # The store

    def read(self):
        return self.record, self.version, self.now - self.written_at

    def swap(self, version, record):
        """The new version; None: somebody else has written."""
        if version != self.version and self.plant != "no swap":
            return None
        self._superseded(record)
        self.record, self.version, self.written_at = record, self.version + 1, self.now
        return self.version

    def _superseded(self, record):
        """A law: no write may take the place of an attempt that trains, is whole and could be seen."""
        before = self.record and self.record.attempt
        after = record.attempt and record.attempt.id
        if before is None or before.id == after or record.has_ended or record.wanted is Wanted.CANCEL:
            return
        for one in self.groups:
            is_healthy = all(node.state == "training" for node in one.nodes)
            if one.attempt == before.id and is_healthy and self.now > one.shown_at + 10 + 2 * POLL_S:
                self.broken.append(f"{self.now:.0f}: a healthy attempt was replaced")

    def is_current(self, attempt):
        record = self.record
        return (
            record is not None
            and not record.has_ended
            and bool(record.attempt and record.attempt.id == attempt)
        )

    # The clouds

    def create(self, attempt, host):
        """Send one; "ok", "full", or "lost": no answer comes, and the create may be done late, or twice."""
        kind, lost = attempt.option.backend, self.random.random() < 0.3
        if kind == "local":
            lost, delay = False, 0.0
        elif lost and self.random.random() < 0.3:
            return "lost"
        elif not lost and self.random.random() < 0.25:
            return "full"
        else:
            delay = (
                self.random.choice([1, 60, 4000, 20000])
                if lost and self.sends_late
                else self.random.uniform(0, 60)
            )
        self.at(delay, lambda: self.made(attempt, host))
        if lost and self.random.random() < 0.3:
            self.at(delay + self.random.uniform(0, 5000), lambda: self.made(attempt, host))
        return "lost" if lost else "ok"

    def made(self, attempt, host):
        kind = attempt.option.backend
        if kind != "vertex" and any(one.attempt == attempt.id for one in self.groups):
            return  # a name is made once, and no other attempt has it
        lag = self.random.uniform(0, 60) if kind == "vertex" else 0
        group = Group(kind=kind, attempt=attempt.id, host=host, born=self.now, shown_at=self.now + lag)
        self.groups.append(group)
        self.start(group, self.random.randint(1, 3) if kind == "vm" else 1)
        self.at(RUNS_S, lambda: self.limit(group))

    def limit(self, group):
        """The platform ends what runs too long, and what hangs."""
        for node in group.nodes:
            if node.state in ALIVE:
                node.state, group.ended_with = "gone", group.ended_with or "too long"

    def start(self, group, nodes):
        group.nodes, group.starts = [Node() for _ in range(nodes)], group.starts + 1
        group.ended_with, group.first_lost = "", None
        for node in group.nodes:
            wait = 0.5 if group.kind == "local" else self.random.uniform(20, 120)
            self.at(wait, lambda node=node: self.boot(group, node))

    def boot(self, group, node):
        if node.state != "booting":
            return
        self.late += not self.is_current(group.attempt)
        is_wanted = self.is_current(group.attempt) and self.record.wanted is Wanted.RUN
        if not is_wanted and self.plant != "no boot check":
            self.leave(group, node, "superseded")
            return
        if group.kind == "vertex":
            holder = self.claims.setdefault(group.attempt, group)
            if holder is not group and self.plant != "no claim":
                self.leave(group, node, "no claim")
                return
        node.state, node.hangs = "training", self.random.random() < 0.01
        if all(one.state == "training" for one in group.nodes):
            group.has_run = True
            fate, after = self.random.choice(
                [
                    ("done", 60),
                    ("done", 400),
                    ("raised", 90),
                    ("preempted", 200),
                    ("preempted", 90),
                    ("vanished", 150),
                ]
            )
            start = group.starts
            self.at(after, lambda: self.meet(group, fate, start))
        self.look_for_two(group)
        self.at(POLL_S, lambda: self.poll(group, node))

    def poll(self, group, node):
        if node.state not in ("training", "saving") or node.hangs:
            return
        if not self.is_current(group.attempt) and self.plant != "no poll":
            self.leave(group, node, "superseded")
            return
        if self.record.wanted is Wanted.CANCEL and node.state == "training" and self.plant != "no poll":
            self.save(group, node)
        self.at(POLL_S, lambda: self.poll(group, node))

    def meet(self, group, fate, start):
        """What was in store for a group that trains."""
        training = [node for node in group.nodes if node.state == "training"]
        if not training or start != group.starts:
            return
        group.ended_with = group.ended_with or fate
        if fate == "vanished":
            for node in group.nodes:
                node.state = "gone"
        elif fate == "preempted" and self.random.random() < 0.7:
            self.random.choice(training).state = "gone"
            group.first_lost = self.now
        for node in group.nodes:
            if node.state == "training":
                self.at(self.random.uniform(0, 40), lambda node=node: self.save(group, node))

    def save(self, group, node):
        if node.state == "training" and not node.hangs:
            node.state, node.saving_since = "saving", self.now
            longest = SAVES_S if self.random.random() < 0.1 else GRACE_S
            self.at(
                self.random.uniform(0, longest),
                lambda: self.leave(group, node, group.ended_with or "cancelled"),
            )

    def leave(self, group, node, why):
        if node.state not in ALIVE:
            return
        node.state, group.ended_with = "ended", group.ended_with or why
        group.first_lost = self.now if group.first_lost is None else group.first_lost
        is_over = all(one.state not in ALIVE for one in group.nodes)
        if is_over and group.ended_with == "preempted" and group.kind != "vm" and group.starts < 3:
            self.start(group, len(group.nodes))  # the platform starts it again, and its guest asks again

    def look_for_two(self, mine):
        """A law: two attempts, or two jobs of one, never train at once."""
        for one in self.groups:
            if one is not mine and any(node.state in ("training", "saving") for node in one.nodes):
                self.broken.append(f"{self.now:.0f}: {one.attempt} and {mine.attempt} train")

    # What clients see and do

    def inspect(self, attempt, host):
        if attempt is None:
            return Status()
        if attempt.option.backend == "local" and not attempt.handle.endswith(f"@{host}") and attempt.handle:
            return Status(state=State.INTERRUPTED) if self.plant == "another host is gone" else Status()
        by_name = attempt.state is Launch.LAUNCHED or attempt.option.backend != "vertex"
        found = [
            one for one in self.groups if one.attempt == attempt.id and (by_name or self.now >= one.shown_at)
        ]
        holder = self.claims.get(attempt.id)
        found = sorted(found, key=lambda one: one is not holder)
        if not found:
            return Status(state=State.INTERRUPTED if attempt.state is Launch.LAUNCHED else State.QUEUED)
        return self._status(found[0], attempt)

    def _status(self, group, attempt):
        alive = [node for node in group.nodes if node.state in ALIVE]
        lost = self.now - group.first_lost if alive and group.first_lost is not None else None
        cause, state = None, State.RUNNING if group.has_run else State.PROVISIONING
        if not alive:
            ends = {"done": State.SUCCEEDED, "raised": State.FAILED, "cancelled": State.CANCELLED}
            unhappy = State.INTERRUPTED if group.kind == "vm" else State.FAILED  # the platform gave up
            state = ends.get(group.ended_with, unhappy)
            known = {"raised": causes.EXCEPTION, "preempted": causes.PREEMPTED, "too long": causes.TIME_LIMIT}
            cause = known.get(group.ended_with)
        exists = bool(alive) or group.kind == "vertex"
        return Status(
            state=state, exists=exists, is_whole=len(alive) == len(group.nodes), lost_for_s=lost, cause=cause,
            has_run=group.has_run, handle=f"{attempt.id}@{group.host}",
        )  # fmt: skip

    def terminate(self, attempt, host, *, is_cancel=False):
        """Remove what can be seen of an attempt, until none of it is left; a step each time."""
        for _ in range(50):
            left = [
                (one, node)
                for one in self.groups
                for node in one.nodes
                if one.attempt == attempt.id and node.state in ALIVE
                and (one.kind != "local" or one.host == host) and self.now >= one.shown_at
            ]  # fmt: skip
            if not left:
                return
            for one, node in left:
                self._judge_end(one, node, is_cancel=is_cancel)
                if self.random.random() < 0.8:
                    node.state = "gone"
                    one.ended_with = one.ended_with or "cancelled"
            yield

    def _judge_end(self, group, node, *, is_cancel):
        record = self.record
        is_wanted = self.is_current(group.attempt) and record.wanted is Wanted.RUN
        if is_wanted and all(one.state in ("booting", "training") for one in group.nodes):
            self.broken.append(f"{self.now:.0f}: a wanted, healthy, current attempt was ended")
        had_s = self.now - node.saving_since
        if node.state == "saving" and had_s < GRACE_S and not is_cancel and self.is_current(group.attempt):
            self.broken.append(f"{self.now:.0f}: a node was deleted {had_s:.0f} s after it began to save")


class Client:
    """One process. Each method is a generator: at every yield others move, or it is killed."""

    def __init__(self, world, host):
        self.world, self.host = world, host

    def submit(self):
        world = self.world
        record, version, _ = world.read()
        yield
        if record is None:
            record = JobRecord(job_id="job", spec={}, options=world.options)
            yield from self.launch(record, version)
        else:
            yield from self.reconcile()

    def launch(self, record, version):
        world = self.world
        options = [*record.options]
        if self.world.random.random() < 0.5:
            options.reverse()
        for option in options:
            attempt = Attempt(id=f"a{next(world.count):07d}", option=option, names=("job",))
            if option.backend == "local":
                attempt = attrs.evolve(attempt, handle=f"{attempt.id}@{self.host}")
            record = record.begin(attempt)
            version = world.swap(version, record)
            swapped_at = world.now
            yield
            if version is None:
                return
            if world.now > swapped_at + FRESH_S and world.version != version:
                return
            if option.backend == "local" and record.history:  # it starts at once, and others ask every 5 s
                for _ in range(20):
                    yield
                    if world.now > swapped_at + 2 * POLL_S:
                        break
            answer = world.create(attempt, self.host)
            yield
            for _ in range(world.random.choice([0, 1, 5, 40, 150])):  # it follows the operation
                if answer == "ok":
                    yield
            if answer == "lost":
                return
            if answer == "full":
                record = record.refused("no room", now=world.now)
                version = world.swap(version, record)
                yield
                if version is None:
                    return
                continue
            done = record.launched(f"{attempt.id}@{self.host}")
            if world.swap(version, done) is None:
                yield
                there, _, _ = world.read()
                yield
                is_ours = there.attempt is not None and there.attempt.id == attempt.id
                if not is_ours or world.plant == "no second read":  # else adopted, or cancelled: it may save
                    yield from world.terminate(attempt, self.host)
            return

    def reconcile(self):
        world = self.world
        record, version, age_s = world.read()
        yield
        if record is None:
            return
        status, looked_at = world.inspect(record.attempt, self.host), world.now
        yield
        if world.now > looked_at + FRESH_S and world.plant != "acts on old looks":
            return
        action = decide(record, self._planted(status), age_s, self._rules(record))
        attempt = record.attempt
        match action:
            case End(result=result):
                if world.swap(version, record.end(result)) is not None and attempt:
                    yield
                    yield from world.terminate(attempt, self.host, is_cancel=True)
            case Terminate():
                yield from world.terminate(attempt, self.host, is_cancel=record.wanted is Wanted.CANCEL)
            case Adopt(handle=handle):
                world.swap(version, record.launched(handle))
            case Replace(outcome=outcome):
                ended = record.end_attempt(outcome, 0.0, has_run=status.has_run)
                version = world.swap(version, ended)
                yield
                if version is not None:
                    yield from world.terminate(attempt, self.host)
                    yield from self.launch(ended, version)
            case Retry():
                yield from self.launch(record, version)
            case Nothing():
                pass

    def _planted(self, status):
        if self.world.plant == "ends at the first result" and status.lost_for_s is not None:
            return attrs.evolve(status, lost_for_s=1e6)
        if self.world.plant == "no adoption" and status.is_whole:
            return attrs.evolve(status, exists=False, state=State.QUEUED)
        return status

    def _rules(self, record):
        itself = record.attempt is not None and record.attempt.option.backend != "vm"
        ttl_s = 10 if record.attempt is not None and record.attempt.option.backend == "local" else 90
        return Rules(
            launch_ttl_s=ttl_s, grace_s=GRACE_S, restarts_left=3 - record.restarts, restarts_itself=itself,
            max_wait_s=50_000,
        )  # fmt: skip

    def cancel(self):
        world = self.world
        while True:
            record, version, _ = world.read()
            yield
            if record is None or record.has_ended:
                return
            if world.swap(version, record.cancel()) is not None:
                break
        world.at(CANCELLED_WITHIN_S, lambda: cancelled_trains(world))


def cancelled_trains(world):
    """A law: what was cancelled has saved and left in time."""
    nodes = [node for one in world.groups for node in one.nodes if not node.hangs]
    if any(node.state in ("training", "saving") for node in nodes):
        world.broken.append(f"{world.now:.0f}: cancelled, and it trains")


def lives(client, what):
    """What one process does in its life."""
    for one in what:
        yield from getattr(client, one)()
        yield "sleeps"


def play(seed, plant=""):
    """One schedule, to its end: everything late has come, and somebody looks after what is left."""
    world = World(seed, plant)
    draw = world.random
    alive = []
    for host in range(draw.randint(1, 3)):
        then = [draw.choice(["reconcile"] * 8 + ["submit", "cancel"]) for _ in range(draw.randint(2, 14))]
        alive.append(lives(Client(world, host % 2), ["submit", *then]))
    while alive and not world.broken:
        one = draw.choice(alive)
        if draw.random() < 0.01:
            alive.remove(one)  # it is killed
            continue
        try:
            sleeps = next(one)
        except StopIteration:
            alive.remove(one)
            continue
        paused = 200 if draw.random() < 0.02 else 1
        world.run(
            world.now + (draw.choice([5, 30, 120, 600]) if sleeps else draw.choice([0.1, 0.5, 2, 2, paused]))
        )
    watchers = [Client(world, host) for host in (0, 1)]
    for _ in range(120):
        for watcher in watchers:
            for _ in watcher.reconcile():
                world.run(world.now + 1)
        world.run(world.now + 500)
        if world.record is None or (world.record.has_ended and not world.events):
            break
    look_at_the_end(world)
    return world


def look_at_the_end(world):
    """Laws: nothing bills that the record does not name, and no job waits for ever."""
    record = world.record
    current = record.attempt.id if record is not None and record.attempt is not None else ""
    left = [one for one in world.groups if any(node.state in ALIVE for node in one.nodes)]
    if any(one.attempt != current or record.has_ended for one in left):
        world.broken.append("at the end machines bill that no record names")
    if record is not None and not record.has_ended:
        world.broken.append(f"at the end the job has not ended: {record.attempt}")


def first_broken(seeds, plant=""):
    """The first seed whose schedule breaks a law, and what it broke; None where none does."""
    return next(((seed, world.broken[0]) for seed in seeds if (world := play(seed, plant)).broken), None)


if __name__ == "__main__":
    found = first_broken(range(int(sys.argv[1])), *sys.argv[2:])
    print(found or "no schedule broke a law")
    sys.exit(found is not None)
