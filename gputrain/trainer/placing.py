"""The first placing of a job: found where somebody has asked for it already, or asked for by its plan."""

from __future__ import annotations

import logging
from contextlib import suppress

from gputrain.backends import seam
from gputrain.backends.abilities import Recorder
from gputrain.backends.base import Request
from gputrain.errors import CapacityError, GputrainError, RequestError, StoppedError
from gputrain.planning import Attempt, Candidate, Ladder, Ledger, Outcome, Plan
from gputrain.planning.attempts import refused
from gputrain.planning.ladder import GiveUp, StopReason
from gputrain.records import CANCELLED, WITHDRAWN, OvertakenError, Record, check_same
from gputrain.trainer.claim import TURN_S, Claim
from gputrain.trainer.climb import Climb
from gputrain.trainer.context import Placed, Staged, Surroundings, again
from gputrain.trainer.no_placement import placement_error
from gputrain.trainer.ways import candidate_of, lately_refused

log = logging.getLogger("gputrain")

LOOK_EVERY_S = 5.0


class Placing:
    """One submit: exactly one job of its id, whoever else submits it."""

    def __init__(self, around: Surroundings, plan: Plan, job_id: str) -> None:
        self._around = around
        self._steady = around.steady()
        self._plan = plan
        self._job_id = job_id
        longest = plan.spec.max_wait_duration
        give_up_at = None if longest is None else self._steady.now() + longest
        self._ladder = Ladder(candidates=plan.candidates, give_up_at=give_up_at)
        self._claim = self._claimed()
        self._claim.met = around.memory.put_off.pop(job_id, None)
        self._shared: tuple[Candidate, Request] | None = None
        self.staged = Staged(job_id, plan.spec)

    def submit(self, *, is_new: bool) -> Placed:
        """The job of this id, found or made.

        Args:
            is_new: the id was drawn just now, so that nobody else can know it.

        Raises:
            ConflictError: the key is that of a job with another spec.
            NoPlacementError, QuotaExceededError: no place takes it.
            StoppedError: it was to stop while it waited; no job was made.
            AccessError, RequestError, TransientError: as the only place that was tried answers.
            KeyboardInterrupt: Ctrl-C: what was being made is withdrawn; the message says so.
        """
        if is_new:  # nobody else can ask for it: where only this machine is asked, no bucket is needed
            self._claim = self._claimed(near=self._plan.best.backend)
        while True:
            try:
                found = None if is_new else self._found()
                return found or self._asked()
            except OvertakenError:  # noqa: PERF203  # somebody else was quicker: look what came of it
                is_new = False

    def _claimed(self, near: str = "") -> Claim:
        around = self._around
        return Claim(around.boards, self._job_id, around.now, around.monotonic, near)

    def _asked(self) -> Placed:
        plan, record = self._plan, self._claim.record
        if record is not None:
            self._ladder = self._ladder.told(lately_refused(record, self._ladder.candidates))
        climb = Climb(
            self._steady, self._claim, plan.spec, self._ladder, self.staged,
            job_id=self._job_id, shared=self._shared,
        )  # fmt: skip
        try:
            outcome = climb.run()
        except BaseException as error:
            is_between = isinstance(error, StoppedError) or not isinstance(error, GputrainError)
            if is_between and not climb.is_unclear:  # struck between two places, where nothing is being made
                with suppress(OvertakenError):
                    self._forget()
            raise
        finally:  # it stays the one of this submit, which is overtaken: else two would ask in turn for ever
            self._ladder = climb.ladder
        match outcome:  # not by a call: a Ctrl-C that fell there would not say that the job is there
            case Placed():
                return outcome
            case GiveUp():
                reason = outcome.reason
            case _:
                reason = StopReason.NOWHERE_LEFT
        if reason is not StopReason.UNCLEAR:  # else something may be there, and the record is how it is found
            self._forget()
            self._look_for_anothers()
        raise placement_error(plan, self._ladder, reason)

    def _look_for_anothers(self) -> None:
        """OvertakenError where somebody has asked while this submit rested: that may be the job."""
        ours, there = self._claim.record, None
        with suppress(GputrainError):  # who cannot look tells what was answered here
            there = self._claim.read()
        if there is not None and (ours is None or there.generation != ours.generation):
            raise self._claim.overtaken()

    def _forget(self) -> None:
        try:
            self._claim.drop()
        except OvertakenError:
            raise
        except GputrainError as error:  # what is left says of each place what it answered: no harm
            log.info("the record of %s stays: %s", self._job_id, error.what)

    def _found(self) -> Placed | None:  # noqa: C901
        """The job, if somebody has asked for it and it came; who is at it now is waited for."""
        self._shared = None
        while True:
            record = self._claim.read()
            if record is not None and record.over == WITHDRAWN and not self._is_listed_only(record):
                if self._is_taken_back(record):
                    return None
                self._wait(record)
                continue
            listed = self._listed()
            if record is not None:
                check_same(record, self._plan.spec)
            if listed is not None or record is None or record.last is None:
                return listed
            if record.is_made or record.over == CANCELLED:
                return self._taken_up(record)
            if not record.is_open:
                is_asked_again = record.latest.answer != WITHDRAWN or self._is_listed_only(record)
                if is_asked_again or self._is_taken_back(record):
                    return None
                self._wait(record)
                continue
            if self._is_listed_only(record):
                self._claim.answer(Outcome.UNCLEAR.value)
                return None
            asked = self._recorder(record)
            try:
                if seam.there(asked, record) is not None:
                    if record.age_s < TURN_S:  # its asker may be at it still
                        self._claim.share()
                    elif not self._claim.is_still(record):
                        continue
                    return self._taken_up(record)
            except CapacityError as error:  # it was taken, and then there were no machines
                self._refused(record, error)
                return None
            # Its age by its own clock alone: who is alive keeps it young, and ours may run ahead of it.
            if record.age_s >= asked.turn_s and self._goes_on(record, asked):
                return None
            self._wait(record)

    def _is_taken_back(self, record: Record) -> bool:
        """Whether nothing is left of what a Ctrl-C was taking back, and nothing of it comes any more."""
        if record.latest.answer and not record.latest.is_unseen:
            return True
        asked = self._recorder(record)
        if not seam.clear(asked, record) and record.age_s < asked.turn_s:
            return False
        self._claim.answer(WITHDRAWN)
        return True

    def _wait(self, record: Record) -> None:
        """Wait for whoever is at it. StoppedError where this trainer does not."""
        if not self._around.waits_for_others:
            self._around.memory.put_off[self._job_id] = self._claim.met
            what = f"somebody is asking for {self._job_id}, or has ended before there was an answer"
            raise StoppedError(what, uri=seam.name_of(self._recorder(record), record).uri)
        self._around.wait(LOOK_EVERY_S)

    def _goes_on(self, record: Record, asked: Recorder) -> bool:
        """Whether nobody needs to be waited for: the ask is repeated as it is, or is old and was cleared."""
        plan = self._plan
        self._shared = again(self._around, self.staged, record, plan.spec, plan.candidates, attempt=0)
        if self._shared is not None:
            return True
        if asked.turn_s and record.age_s < TURN_S:
            return False
        if asked.turn_s:
            seam.clear(asked, record)  # first nothing is left of it, then the next place may be asked
        self._claim.answer(Outcome.UNCLEAR.value)
        return True

    def _listed(self) -> Placed | None:
        """As `_found`, where a backend keeps no records and its jobs can only be listed."""
        for backend in self._around.backends.values():
            if self._around.boards.recorder(backend.name) is not None:
                continue
            for ref in seam.find(backend, self._job_id):
                if ref.name == self._job_id:
                    mine = [one for one in self._plan.candidates if one.backend == backend.name]
                    one = mine[0] if len(mine) == 1 else None
                    return Placed(ref=ref, backend=backend, candidate=one, attempts=self._told(one))
        return None

    def _is_listed_only(self, record: Record) -> bool:
        """Whether the latest ask went to a backend that keeps no records; its jobs are found by a list."""
        name = record.latest.way.backend
        return name in self._around.backends and self._around.boards.recorder(name) is None

    def _taken_up(self, record: Record) -> Placed:
        ref = seam.name_of(self._recorder(record), record)
        backend = self._around.backends[record.latest.way.backend]
        one = candidate_of(record.latest, self._plan.candidates)
        return Placed(ref=ref, backend=backend, candidate=one, attempts=self._told(one))

    def _told(self, found: Candidate | None) -> Ledger:
        if found is None:
            return Ledger()
        answer = "found there: an earlier submit made it"
        at = self._around.now()
        return Ledger((Attempt(candidate=found, at=at, outcome=Outcome.ACCEPTED, answer=answer),))

    def _recorder(self, record: Record) -> Recorder:
        """The backend of the latest ask. RequestError where it is none of this trainer's."""
        way = record.latest.way
        found = self._around.boards.recorder(way.backend)
        if found is not None:
            return found
        raise RequestError(
            f"{self._job_id} was asked of {way.backend} in {way.place}, which this trainer does not have",
            why="asking elsewhere could make it a second time",
            fix=f"give the trainer its {way.backend} backend as well, or submit under another key",
        )

    def _refused(self, record: Record, error: CapacityError) -> None:
        self._claim.answer(Outcome.NO_ROOM.value, error.scope.value)
        one = candidate_of(record.latest, self._plan.candidates)
        if one is not None:
            self._around.memory.learn(refused(one, error, self._around.now()))
