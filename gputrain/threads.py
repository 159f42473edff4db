"""Threads beside the main one, which a Ctrl-C may interrupt between any two steps.

::

    side_by_side(read, jobs)      eight at a time; what each returns, in their order
    bell.wait(30.0)               in one thread; any other: bell.ring()

Python's own pools, events and conditions take their locks in words of Python: a Ctrl-C that falls into one
leaves it shut, and all who want it later wait for ever. What is here takes only locks of C's. A process that
is forked begins with all of them open: whoever held one stayed behind.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

K = TypeVar("K")
T = TypeVar("T")

AT_ONCE = 8
"""Calls that are out at the same moment, unless said."""

LOOKED_FOR_S = 0.02
"""How often the end of a thread is looked for, after the first few looks."""

BEGINS_WITHIN_S = 2.0
"""How long a thread that was started is waited for that does not run yet."""

FEW = 1000
"""Locks that are noted before the dead among them are looked for."""


class _EveryLock:
    """All locks that there are, to be opened in a fork: by where each lies, and where the next one may lie.

    A set of Python's own would run words of Python as each goes: a Ctrl-C that falls there is told nobody.
    """

    locks: ClassVar[dict[int, weakref.ref[Any]]] = {}
    older: ClassVar[dict[int, weakref.ref[Any]]] = {}
    """Those of before, while they are gone through."""
    most = FEW


def new_lock() -> Any:
    """A lock that its holder may take once more: whoever handles a signal may be in the midst of anything."""
    lock = threading.RLock()
    where, known = id(lock), weakref.ref(lock)
    _EveryLock.locks[where] = known  # in one step: no other thread forgets the dead within it
    if len(_EveryLock.locks) > _EveryLock.most:
        _forget_the_dead()
    return lock


def _forget_the_dead() -> None:
    older = {**_EveryLock.older, **_EveryLock.locks}
    _EveryLock.older, _EveryLock.locks = older, {}  # what is made from now on is noted there
    for where, known in list(older.items()):
        if known() is not None:
            _EveryLock.locks.setdefault(where, known)
    _EveryLock.older = {}
    _EveryLock.most = max(FEW, 2 * len(_EveryLock.locks))


def _open_all() -> None:
    for known in [*_EveryLock.older.values(), *_EveryLock.locks.values()]:
        lock = known()
        if lock is not None and not lock._is_owned():  # else whoever has forked gives it back
            lock._at_fork_reinit()  # as Python's own logging does


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_open_all)


class Bell:
    """Wakes the one thread that waits for it; what rings before that is not lost."""

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self) -> None:
        """End the waiting, or the next one."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self._silence.release()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it rings, or so long; whether it rang."""
        return self._silence.acquire(timeout=-1 if seconds is None else max(0.0, seconds))


class Aside(threading.Thread):
    """Knows by itself whether it runs: after a Ctrl-C in its start, or in a wait for its end, Python errs."""

    has_begun = has_ended = False

    def __init__(self, **told: Any) -> None:
        super().__init__(**told)
        self._process = os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is of the process that this one was forked from: here it runs no more."""
        return self._process != os.getpid()

    def run(self) -> None:
        """As of `threading.Thread`."""
        self.has_begun = True
        try:
            super().run()
        finally:
            self.has_ended = True


def aside(act: Callable[[], object], name: str) -> Aside:
    """A thread that is yet to be begun: a daemon, as what never ends must not keep a process from its end."""
    return Aside(target=act, name=name, daemon=True)


def begin(thread: threading.Thread) -> None:
    """Start a thread, which is noted by now: a Ctrl-C in the midst of it may leave it running.

    Raises:
        RuntimeError: there is no room for another thread.
    """
    try:
        thread.start()
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # it fell into the wait of its event
            raise error.__context__ from None
        raise


def pauses_s() -> Iterator[float]:
    """Between looks at what another thread does, in seconds: short at first, for what comes from near by."""
    pause_s = 0.0005
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LOOKED_FOR_S)


def await_end(thread: Aside) -> None:
    """Wait until a thread has ended; not for long where a Ctrl-C fell into its start, and it never begins."""
    until, pauses = time.monotonic() + BEGINS_WITHIN_S, pauses_s()
    while not (thread.has_ended or thread.is_elsewhere) and (thread.has_begun or time.monotonic() < until):
        time.sleep(next(pauses))


def side_by_side(act: Callable[[K], T], asked: Iterable[K], at_once: int = AT_ONCE) -> list[T]:
    """What a function returns for each, in their order.

    A Ctrl-C is raised at once: no other call begins, and those that are out are left to end by themselves.

    >>> side_by_side(str.upper, "ab")
    ['A', 'B']

    Raises:
        Whatever the first of them in their order raises, once all have ended.
    """
    todo = deque(enumerate(asked))
    if len(todo) == 1:
        return [act(todo[0][1])]
    returned: dict[int, T] = {}
    raised: dict[int, BaseException] = {}

    def work() -> None:
        while todo:
            try:
                number, one = todo.popleft()
            except IndexError:  # another was quicker
                return
            try:
                returned[number] = act(one)
            except BaseException as error:  # noqa: BLE001  # raised where the answers are wanted
                raised[number] = error

    try:
        threads = []
        for _ in range(min(at_once, len(todo))):
            threads.append(aside(work, "gputrain side by side"))
            try:
                begin(threads[-1])
            except RuntimeError:  # as many as there is room for; without any, in this one
                threads.pop()
                break
        if not threads:
            work()
        for one in threads:
            one.join()
    finally:
        todo.clear()
    for number in sorted(raised):
        raise raised[number]
    return [returned[number] for number in sorted(returned)]
