"""A job that was placed and cannot stay: it goes on by the same ladder, in any process with its settings.

::

    look -> interrupted, or no machines after all  ->  the record: what was asked, what is left of it
         -> candidates from this process's own settings, in the record's order, facts read anew
         -> the climb of a first submit
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress

import attrs

from gputrain import causes
from gputrain.backends import seam
from gputrain.backends.abilities import Recorder
from gputrain.backends.base import Backend, JobRef
from gputrain.errors import CapacityError, JobLostError, RequestError, Scope
from gputrain.job.record import Step
from gputrain.lifecycle import Observation, State
from gputrain.planning import Attempt, Candidate, Ladder, Ledger, Outcome
from gputrain.planning.ladder import Try
from gputrain.records import MADE, WITHDRAWN, OvertakenError, Record, RecordError
from gputrain.trainer.cancels import cancel, known, taker
from gputrain.trainer.choice import supply_of
from gputrain.trainer.claim import TURN_S, Claim
from gputrain.trainer.climb import Climb
from gputrain.trainer.context import Placed, Staged, Surroundings, again, as_before
from gputrain.trainer.next import LATE, Next, end_of_wait, has_left, is_late, is_placeless, late, rest_s
from gputrain.trainer.ways import FULL_FOR_S, candidate_of, lately_refused, ways_on

log = logging.getLogger("gputrain")
_NO_CODE = "its code is not where %s could find it from here"


class Restart:
    """What one job's handle asks for: whether a way is left, and to go on by it."""

    def __init__(self, around: Surroundings, job_id: str, near: str, staged: Staged | None = None) -> None:
        self._around = around
        self._job_id = job_id
        self._staged = staged or Staged(job_id)
        self._claim = Claim(around.boards, job_id, around.now, around.monotonic, near)
        self._said: tuple[str, ...] = ()  # an empty one takes no memory

    def way_on(self, seen: Observation) -> str:
        """What comes next for a job that is at no place after all; empty where that is its end."""
        record = self._startable() if is_placeless(seen) else None
        if record is None:
            return ""
        if not record.is_open:
            return "it waits for room"
        if has_left(seen, record):
            return f"{record.latest.way.place} is asked" if self._lister(record) else self._elsewhere(record)
        following = self._next(record, seen)
        if following is None:
            return ""
        ladder = self._ladder(following, self._candidates(following.record))
        step = ladder.step(self._around.now(), self._around.memory.blocks)
        if isinstance(step, Try):
            one = step.candidate
            has_code = self._has_code(one, record)
            then = f"the next place of the plan is asked: {one.place}" if has_code else _NO_CODE % one.backend
            return f"{following.told}; {then}"
        waits = following.record.training_spec.max_wait_duration is not None
        return f"{following.told}; it waits for room" if waits else ""

    def _elsewhere(self, record: Record) -> str:
        """Nothing, for one that is on another backend. JobLostError: no such is here to follow it."""
        way = record.latest.way
        if way.backend in self._around.backends:
            return ""
        raise JobLostError(
            f"{self._job_id} is not where it was any more",
            why=f"it went on to {way.backend} in {way.place}",
            fix=f"attach to it with a trainer that has its {way.backend} backend as well",
        )

    def go_on(self, seen: Observation, told: Ledger) -> Step:
        """Ask for the job again, where that may be and something has room.

        Args:
            seen: the look that said how the job stands, as its backend gave it.
            told: the ledger so far.
        """
        stays = Step(placed=None, attempts=told)
        known = self._claim.record
        if known is not None and not known.is_open and self._claim.is_younger(known, rest_s(known)):
            return stays  # many wait for room: what is not due costs no call
        record = self._startable()
        if record is None:
            return stays
        following = self._next(record, seen)
        if following is None:
            return stays
        try:
            return self._climb(following, told)
        except OvertakenError:  # another process does it
            return stays

    def elsewhere(self, backend: Backend, seen: Observation | None) -> tuple[JobRef, Backend] | None:
        """Where others have gone on with it, by another name; None where it is, or was left, here."""
        record = self.record() if seen is None or is_placeless(seen) else None
        return None if record is None else taker(self._around, record, backend)

    def tidy(self, ref: JobRef, backend: Backend, seen: Observation) -> None:
        """End what is left of a gang that cannot go on; for those who act, and never for a mere look."""
        seam.tidy(backend, ref, seen)

    def cancel(self, ref: JobRef, backend: Backend) -> None:
        """Have nobody start it again, and end it. Errors as of `Backend.cancel`."""
        cancel(self._around, self._claim, self._job_id, ref, backend)

    def record(self) -> Record | None:
        """What was asked for the job, as it is written now.

        None also where it is none, or kept where this process may not write.
        """
        try:
            return known(self._around, self._claim)
        except (RecordError, RequestError) as error:
            self._say(f"{self._job_id} cannot be started again from here: {error}")
            return None

    def _startable(self) -> Record | None:
        """The record, where somebody may start the job by it."""
        record = self.record()
        if record is None or record.over:
            return None
        if record.unread:
            self._say(record.unread)
        return None if record.unread else record

    def _next(self, record: Record, seen: Observation) -> Next | None:
        if not record.is_open:
            is_due = seen.state is not None and record.age_s >= rest_s(record)
            goes_on = record.latest.answer == WITHDRAWN and not record.is_made  # its round is not over
            following = Next(record=record, attempt=record.attempt, told="no room yet", is_late=goes_on)
            return following if is_due else None
        if has_left(seen, record):
            return self._unseen(record) if is_placeless(seen) else None
        if is_late(seen):
            return late(record, seen)
        cause = causes.of(seen.failure.kind) if seen.failure else None
        if seen.state is not State.INTERRUPTED:
            return None
        if cause is None:
            # Ranks have run: where they were, their keeper starts them again.
            return None if seen.started_at else self._unanswered(record)
        if not cause.may_restart or not record.restarts_left:
            return None
        spent = record.answered(MADE).spent(int(seen.ran_s))
        told = "interrupted there, and it starts again"
        return Next(record=attrs.evolve(spent, waiting_since=0.0), attempt=record.attempt + 1, told=told)

    def _unanswered(self, record: Record) -> Next | None:
        """For an ask of which nothing came: whoever was at it may be still, or has died."""
        told, spec = "nothing came", record.left
        asked = self._around.boards.recorder(record.latest.way.backend)
        if spec is not None and asked is not None and record.age_s > asked.turn_s:
            found = self._candidates(record)
            same = again(self._around, self._staged, record, spec, found, attempt=record.attempt)
            if same is not None:
                return Next(record=record, attempt=record.attempt, told=told, shared=same)
        if record.age_s <= TURN_S:
            return None
        return Next(record=record.answered(Outcome.UNCLEAR.value), attempt=record.attempt, told=told)

    def _unseen(self, record: Record) -> Next | None:
        """For an ask whose job no list shows once whoever was at it must have died."""
        asked = self._lister(record)
        if asked is None or record.age_s <= TURN_S:
            return None
        with suppress(CapacityError):  # the next look sees it
            if seam.there(asked, record) is None:
                record = record.answered(Outcome.UNCLEAR.value)
                return Next(record=record, attempt=record.attempt, told="nothing came", is_late=True)
        return None

    def _lister(self, record: Record) -> Recorder | None:
        """The backend of the latest ask, if jobs are found there in lists, which may show them late.

        None long after the ask: what no list shows by then may have run, and been deleted by hand.
        """
        asked = self._around.boards.recorder(record.latest.way.backend)
        return None if asked is None or asked.repeats or record.age_s > FULL_FOR_S else asked

    def _climb(self, following: Next, told: Ledger) -> Step:
        record, spec = following.record, following.record.left
        found = self._candidates(record)
        if spec is not None and not found and not self._said:
            places = ", ".join(sorted({f"{one.region} of {one.backend}" for one in record.ways}))
            self._say(f"{self._job_id} was asked for in {places} alone, where no backend here asks")
        asks = (record.latest, *(one for one in record.asks if one.is_unseen))
        is_seen = all(one.way.backend in self._around.backends for one in asks)  # else it is not cleared
        if spec is None or not found or not is_seen:  # then it is others who go on
            return Step(placed=None, attempts=told)
        asked = self._around.boards.recorder(record.latest.way.backend)
        if following.shared is None and asked is not None:
            seam.clear(asked, record)  # nothing of the latest ask is left, before the next
        fresh = self._around.read_anew(found)
        ladder = self._ladder(following, fresh)
        seeds = len(ladder.attempts)
        self._claim.record = record
        climb = Climb(
            self._around, self._claim, as_before(spec, record), ladder, self._staged,
            job_id=self._job_id, attempt=following.attempt, may_rest=False, shared=following.shared,
        )  # fmt: skip
        outcome = climb.run()
        left = self._leaving(following, found, outcome if isinstance(outcome, Placed) else None)
        ledger = Ledger((*told, *left, *climb.ladder.attempts[seeds:])).bounded()
        if isinstance(outcome, Placed):
            ref = outcome.ref
            recorder = self._around.boards.recorder(outcome.backend.name)
            if recorder is not None and self._claim.record is not None:
                ref = seam.name_of(recorder, self._claim.record)
            return Step(placed=attrs.evolve(outcome, ref=ref), attempts=ledger)
        if any(self._has_code(one, record) for one in found):  # else it is others who can go on
            self._rest(following)
        return Step(placed=None, attempts=ledger)

    def _rest(self, following: Next) -> None:
        """Write down that no place had room: it is tried again later, or that was its end."""
        record = self._claim.record or following.record
        if record.is_open:
            return  # no clear answer came: the record stays as it is, and so do its names
        since = record.waiting_since or record.now
        over = end_of_wait(record, since, has_run=following.attempt > 0)
        self._claim.write(attrs.evolve(record, over=over, waiting_since=since))
        if record.latest.is_unseen and self._claim.give_up():
            raise self._claim.overtaken_by(record.latest)

    def _candidates(self, record: Record) -> tuple[Candidate, ...]:
        """The ways of this process's own backends, as far as the record's order, time and money go."""
        spec = record.left
        if spec is None:
            return ()
        alike = [one for one in self._around.backends.values() if self._is_set_alike(one, record)]
        return ways_on(record, spec, [supply_of(one) for one in alike])

    def _ladder(self, following: Next, found: tuple[Candidate, ...]) -> Ladder:
        # Only a job that never ran passes its refusals on; one that was interrupted may go where it was.
        # Without a wait it goes round once, however late somebody looks.
        within_s = math.inf if following.record.training_spec.max_wait_duration is None else FULL_FOR_S
        seed = lately_refused(following.record, found, within_s=within_s) if following.is_late else ()
        return Ladder(candidates=found, attempts=Ledger(seed))

    def _has_code(self, one: Candidate, record: Record) -> bool:
        recorder = self._around.boards.recorder(one.backend)
        return self._staged.is_at_hand(self._around.backends[one.backend], recorder, record)

    def _is_set_alike(self, backend: Backend, record: Record) -> bool:
        """Whether a backend would make what was made before: its settings are ours, never the record's."""
        told, recorder = record.settings.get(backend.name), self._around.boards.recorder(backend.name)
        if told is None or recorder is None:
            return True
        own = seam.choices(recorder, backend.name)
        other = sorted(name for name in {*told, *own} if told.get(name) != own.get(name))
        if other:
            parts = ", ".join(f"{name}={told.get(name)!r} (here {own.get(name)!r})" for name in other)
            self._say(f"{self._job_id} can be started again by a {backend.name} backend with {parts}")
        return not other

    def _leaving(
        self, following: Next, found: tuple[Candidate, ...], placed: Placed | None
    ) -> tuple[Attempt, ...]:
        """What the ledger says of the place that the job leaves; nothing of one that refused it before."""
        last = following.record.last
        one = None if last is None else candidate_of(last, found)
        if one is None or last is None or last.answer not in (MADE, *LATE):
            return ()
        told = following.told
        if last.answer == MADE and placed is not None and placed.candidate is not None:
            told += " elsewhere" if placed.candidate.place != one.place else " there"
            fewer, missing = placed.candidate.num_nodes, placed.candidate.missing_nodes
            told += f", with {fewer} of {fewer + missing} nodes" * bool(missing)
        outcome = LATE.get(last.answer, Outcome.NO_ROOM)
        now = self._around.now()
        return (Attempt(candidate=one, at=now, outcome=outcome, answer=told, scope=Scope.REGION),)

    def _say(self, text: str) -> None:
        """Tell it once, whoever looks how often."""
        if text not in self._said:
            self._said += (text,)
            log.warning("%s", text)
