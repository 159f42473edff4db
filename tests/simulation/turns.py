"""Whose turn it is: tasks that wait in the emulator's time, one of them running at any moment.

A task is a thread, because the code under test is written for threads; but only the one that holds the turn
runs. It gives the turn away where it waits: for a reply, a lock, or a moment. Who is next is drawn.
"""

import threading
import traceback

LONGEST_S = 14 * 86400.0
MOST_TURNS = 60_000


class Killed(BaseException):
    """The process of this task is gone: nothing that it still does leaves it."""


class Process:
    """One client: its tasks die together, and its clock is its own."""

    def __init__(self, turns, name, *, dice, clock_off_s=0.0):
        self.turns = turns
        self.name = name
        self.dice = dice
        self.clock_off_s = clock_off_s
        self.is_dead = False
        self.interrupts = 0
        self.requests = 0
        self.main = None

    def now(self):
        """What this machine's own clock says."""
        return self.turns.clock.now() + self.clock_off_s

    def kill(self):
        self.is_dead = True

    def interrupt(self):
        if self.main is not None and not self.main.is_over:
            self.interrupts += 1


class Task:
    """Something that a process does, in a thread that it has for itself until it is over."""

    def __init__(self, process, work, name):
        self.process, self.work, self.name = process, work, name
        self.until, self.ready = 0.0, None
        self.is_over = False
        self.baton = threading.Lock()
        """Held by whoever waits for the turn."""
        self.baton.acquire()

    def is_due(self, now):
        if self.process.is_dead or self.until <= now:
            return True
        if self.process.interrupts and self is self.process.main:
            return True
        return self.ready is not None and self.ready()


class Turns:
    """Gives turns until every task is over; time passes only while nobody has anything to do."""

    def __init__(self, clock, dice):
        self.clock = clock
        self.dice = dice
        self.current = None
        self.tasks = []
        self.given = 0
        self.broken = ""
        self._end = threading.Lock()
        self._end.acquire()
        self._started_at = clock.now()

    def spawn(self, process, work, name, *, at=None):
        """Have a process do something, from a moment on; at once unless said."""
        task = Task(process, work, name)
        task.until = self.clock.now() if at is None else at
        if process.main is None:
            process.main = task
        self.tasks.append(task)
        threading.Thread(target=self._live, args=(task,), daemon=True).start()
        return task

    def run(self):
        """Until every task is over."""
        if self.tasks:
            self._give()
            self._end.acquire()

    def pause(self, until, ready=None):
        """The current task waits until a moment, or until something holds; then its process may be gone."""
        task = self.current
        task.until, task.ready = until, ready
        if self._choose() is not task:
            self._hand_over(task)
        process = task.process
        if process.is_dead:
            raise Killed
        if process.interrupts and task is process.main:
            process.interrupts -= 1
            raise KeyboardInterrupt

    def _hand_over(self, task):
        self.current.baton.release()
        task.baton.acquire()

    def _live(self, task):
        task.baton.acquire()
        try:
            if not task.process.is_dead:
                task.work()
        except Killed:
            pass
        except BaseException:  # noqa: BLE001  # a task of the simulation itself; the clients' own are caught
            self.broken = self.broken or traceback.format_exc()
        task.is_over = True
        self.tasks.remove(task)
        self._give()

    def _give(self):
        chosen = self._choose() if self.tasks else None
        (self._end if chosen is None else chosen.baton).release()

    def _choose(self):
        """The task that is next, once it has something to do; time passes until then."""
        self.given += 1
        if self.given > MOST_TURNS or self.clock.now() - self._started_at > LONGEST_S:
            self._end_it(
                f"still at it after {self.given} turns and {self.clock.now() - self._started_at:g} s"
            )
        while True:
            now = self.clock.now()
            due = [task for task in self.tasks if task.is_due(now)]
            if due:
                self.current = due[0] if len(due) == 1 else self.dice.choice(due)
                return self.current
            event = self.clock.next_event()
            wake = min(task.until for task in self.tasks)
            when = wake if event is None else min(wake, event)
            if when == float("inf"):
                self._end_it("every task waits for another")
                continue
            try:
                self.clock.advance_to(when)
            except Exception:  # noqa: BLE001  # the emulator or a guest: the schedule ends, and tells
                self._end_it(traceback.format_exc()[-1500:])

    def _end_it(self, why):
        told = ", ".join(f"{task.process.name} {task.name}" for task in self.tasks)
        self.broken = self.broken or f"{why}: {told}"
        for task in self.tasks:
            task.process.kill()
