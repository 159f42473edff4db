"""Goes where there is room: does what the ladder says, one place at a time, and writes down every answer."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs

from gputrain.backends.base import Backend, Bundle, FindsById, JobRef, Request, Withdraws
from gputrain.errors import GputrainError, JobLostError, TransientError
from gputrain.planning import Attempt, Blocks, Candidate, Ladder, Ledger, Plan
from gputrain.planning.attempts import accepted, passed_over, refused
from gputrain.planning.ladder import GiveUp, Rest, Try
from gputrain.trainer.nowhere import placement_error
from gputrain.trainer.turn import LostTurnError, Turn

log = logging.getLogger("gputrain")

LATE_LOOKS = 3
LATE_EVERY_S = 2.0


class Memory:
    """What the submits of one trainer learn from each other: where there was no room. Shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = Blocks()

    @property
    def blocks(self) -> Blocks:
        """The places that come last for now."""
        return self._blocks

    def learn(self, attempt: Attempt) -> None:
        """Take in one answer."""
        with self._lock:
            self._blocks = self._blocks.after(attempt)


@attrs.frozen(kw_only=True)
class Placed:
    """Where the job is, and how it came there."""

    ref: JobRef
    backend: Backend
    candidate: Candidate | None
    """None for a job that was found, where several candidates could be it."""
    attempts: Ledger


@attrs.frozen(kw_only=True)
class Surroundings:
    """What a climb needs of its trainer."""

    backends: Mapping[str, Backend]
    memory: Memory
    read_anew: Callable[[Sequence[Candidate]], tuple[Candidate, ...]]
    """The candidates with facts of now, ranked."""
    now: Callable[[], datetime]
    sleep: Callable[[float], None]


class Climb:
    """One submit: never two gangs at once, and none left where it ends without a job."""

    def __init__(self, around: Surroundings, plan: Plan[Any], job_id: str) -> None:
        self._around = around
        self._plan = plan
        self._job_id = job_id
        self._bundles: dict[str, Bundle] = {}
        self._turn = Turn((), job_id, around.sleep)
        self._made: tuple[Backend, JobRef] | None = None
        longest = plan.spec.max_wait_duration
        give_up_at = None if longest is None else around.now() + longest
        self._ladder = Ladder(candidates=plan.candidates, give_up_at=give_up_at)

    def known(self) -> Placed | None:
        """The job of this id that is there already, on whichever backend; its quota is in use, by itself.

        There are two only where our turn lapsed in the midst of a create: then what we made goes.
        """
        backends = self._around.backends.values()
        there = [(backend, ref) for backend in backends if (ref := self._known_of(backend)) is not None]
        if len(there) > 1 and self._made in there:
            there.remove(self._made)
            self._made[0].cancel(self._made[1])
        return self._found(*there[0]) if there else None

    def _known_of(self, backend: Backend) -> JobRef | None:
        if isinstance(backend, FindsById):
            return backend.known(self._job_id)
        return next((ref for ref in backend.find(name=self._job_id) if ref.name == self._job_id), None)

    def once(self) -> Placed:
        """The job of this id, found or made: by one process at a time where several backends may take it.

        Raises as `run`.
        """
        if len(self._around.backends) == 1:
            return self.known() or self.run()
        turn = self._turn = Turn(self._around.backends.values(), self._job_id, self._around.sleep)
        try:
            while True:
                turn.take()
                with contextlib.suppress(LostTurnError):
                    return self.known() or self.run()
        finally:
            self._turn = Turn((), self._job_id, self._around.sleep)
            turn.end()

    def run(self) -> Placed:
        """Climb until some place takes the job.

        Raises:
            NoPlacementError, QuotaExceededError: no place does.
            AccessError, RequestError, TransientError: as the only place that was tried answers.
            KeyboardInterrupt: Ctrl-C: what was being made is withdrawn; the message says so.
        """
        while True:
            step = self._ladder.step(self._around.now(), self._around.memory.blocks)
            match step:
                case Try():
                    placed = self._try(step)
                    if placed is not None:
                        return placed
                case Rest():
                    self._rest(step)
                case GiveUp():
                    raise placement_error(self._plan, self._ladder, step.reason)

    def are_left(self, attempts: Ledger) -> bool:
        """Whether some place may still be asked after these answers."""
        ladder = attrs.evolve(self._ladder, attempts=attempts)
        return not isinstance(ladder.step(self._around.now(), self._around.memory.blocks), GiveUp)

    def go_on(self, attempts: Ledger) -> Placed:
        """Climb on from a place that took the job and found no room for it later. Raises as `run`."""
        self._around.memory.learn(attempts[-1])
        candidates = self._around.read_anew(self._ladder.candidates)
        self._ladder = attrs.evolve(self._ladder, candidates=candidates, attempts=attempts)
        return self.run()

    def _rest(self, step: Rest) -> None:
        log.info("no room for %s anywhere; going round again at %s", self._job_id, step.until)
        self._sleep_until(step.until)
        self._ladder = self._ladder.again(self._around.read_anew(self._ladder.candidates))

    def _try(self, step: Try) -> Placed | None:
        if step.not_before is not None:
            self._sleep_until(step.not_before)
        candidate = step.candidate
        for one in self._ladder.passed_over(candidate):
            self._note(passed_over(one, self._around.now()))
        backend = self._around.backends[candidate.backend]
        request: Request | None = None
        try:
            request = self._request(backend, candidate)
            self._turn.keep()
            ref = backend.create(request)
            self._made = (backend, ref) if ref == request.ref else None
            self._turn.keep()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._withdraw(backend, candidate, request)) from None
        except GputrainError as error:
            if request is None and isinstance(error, TransientError):
                raise  # nothing was asked of the place, so there is nothing to settle
            self._note(refused(candidate, error, self._around.now()))
            return None
        if ref != request.ref:
            return self._found(backend, ref)
        self._note(accepted(candidate, self._around.now()))
        return Placed(ref=ref, backend=backend, candidate=candidate, attempts=self._ladder.attempts)

    def _found(self, backend: Backend, ref: JobRef) -> Placed:
        """The job was made before, elsewhere: by an earlier submit of the same key, or another process."""
        same = [one for one in self._plan.candidates if one.backend == backend.name]
        there = [one for one in same if self._request(backend, one).ref == ref]
        if there:
            self._note(accepted(there[0], self._around.now(), "found there: an earlier submit made it"))
        candidate = there[0] if len(there) == 1 else None  # of several, nobody knows which it was
        return Placed(ref=ref, backend=backend, candidate=candidate, attempts=self._ladder.attempts)

    def _request(self, backend: Backend, candidate: Candidate) -> Request:
        if backend.name not in self._bundles:
            self._bundles[backend.name] = backend.stage(self._plan.spec, self._job_id)
        return backend.render(self._plan.spec, candidate, self._job_id, self._bundles[backend.name])

    def _note(self, attempt: Attempt) -> None:
        place = f"{attempt.candidate.backend} {attempt.candidate.place}"
        log.info("%s at %s: %s", self._job_id, place, attempt.answer)
        self._ladder = self._ladder.after(attempt)
        self._around.memory.learn(attempt)

    def _sleep_until(self, when: datetime) -> None:
        pause_s = (when - self._around.now()).total_seconds()
        try:
            self._around.sleep(max(0.0, pause_s))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"submit was interrupted while it waited; {self._so_far}") from None

    @property
    def _so_far(self) -> str:
        tried = len(self._ladder.attempts.tries)
        return f"nothing was made at the {tried} {'place' if tried == 1 else 'places'} tried so far"

    def _withdraw(self, backend: Backend, candidate: Candidate, request: Request | None) -> str:
        what = f"submit was interrupted while {backend.name} was asked for {candidate.place}; "
        if request is None:
            return f"{what}{self._so_far}"
        log.warning("withdrawing %s from %s %s", self._job_id, backend.name, candidate.place)
        try:
            is_gone = withdrawn(backend, request.ref, self._around.sleep)
        except (GputrainError, KeyboardInterrupt):
            is_gone = False
        if is_gone:
            return f"{what}what was made there was withdrawn, and {self._so_far}"
        return f"{what}it may be there: end it with gputrain.attach({request.ref.uri!r}).cancel()"


def withdrawn(backend: Backend, ref: JobRef, sleep: Callable[[float], None]) -> bool:
    """End what an interrupted create may have made; whether nothing of it goes on.

    A job whose answer was not waited for may show late, so it is looked for a few times.
    """
    if isinstance(backend, Withdraws):
        return backend.withdraw(ref)
    for _ in range(LATE_LOOKS):
        if _cancelled(backend, ref):
            break
        sleep(LATE_EVERY_S)
    return True


def _cancelled(backend: Backend, ref: JobRef) -> bool:
    try:
        backend.cancel(ref)
    except JobLostError:
        return False
    return True
