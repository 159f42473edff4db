"""Goes where there is room: does what the ladder says, one place at a time, and writes down every answer."""

from __future__ import annotations

import contextlib
import logging
import secrets
from datetime import datetime

import attrs

from gputrain.backends import guard, seam
from gputrain.backends.abilities import BarsLate
from gputrain.backends.base import Backend, Bundle, JobRef, Request, Start
from gputrain.errors import GputrainError, StoppedError, TransientError
from gputrain.gcp import UnclearError, UndoneError
from gputrain.planning import Attempt, Candidate, Ladder
from gputrain.planning.attempts import accepted, passed_over, refused
from gputrain.planning.ladder import GiveUp, Rest, Step, Try
from gputrain.records import Ask, Code, OvertakenError, Record
from gputrain.records.record import spec_of
from gputrain.retry import QUEUE
from gputrain.spec import TrainingSpec
from gputrain.trainer.claim import Claim
from gputrain.trainer.context import Placed, Staged, Surroundings, whole
from gputrain.trainer.undo import TRIED_S, clear, keep_apart, take_back, unread
from gputrain.trainer.ways import way_of

log = logging.getLogger("gputrain")


class Climb:
    """One way up the ladder: never two gangs at once, and none left where it ends without a job.

    Args:
        around: the trainer.
        claim: the record, which is written before each place is asked.
        spec: what is to run, with what is left of its time and money.
        ladder: the places, and what they have answered.
        staged: the code.
        attempt: 0 for the first start of the job, one more with each restart.
        may_rest: for a first placing: whether to wait for room and go round again.
        shared: an ask of another process that is repeated first, as it was: it stays one ask.
    """

    def __init__(
        self,
        around: Surroundings,
        claim: Claim,
        spec: TrainingSpec,
        ladder: Ladder,
        staged: Staged,
        *,
        job_id: str,
        attempt: int = 0,
        may_rest: bool = True,
        shared: tuple[Candidate, Request] | None = None,
    ) -> None:
        self._around = around.steady()
        self._claim = claim
        self._spec = spec
        self._staged = staged
        self._job_id = job_id
        self._attempt = attempt
        self._may_rest = may_rest
        self._pending = shared
        self._is_shared = shared is not None
        self.ladder = ladder

    def run(self) -> Placed | GiveUp | Rest:
        """Climb until some place takes the job, or say why none does.

        Raises:
            OvertakenError: another process has gone on with the job meanwhile.
            KeyboardInterrupt: Ctrl-C: what was being made is withdrawn; the message says so.
        """
        step: Step = self._step() if self._pending is None else Try(candidate=self._pending[0])
        while True:
            match step:
                case Try():
                    placed = self._try(step)
                    if placed is not None:
                        return placed
                case Rest() if self._may_rest:
                    log.info("no room for %s anywhere; going round again at %s", self._job_id, step.until)
                    self._sleep_until(step.until)
                    self.ladder = self.ladder.again(self._around.read_anew(self.ladder.candidates))
                case Rest() | GiveUp():
                    return step
            step = self._step()

    def _step(self) -> Step:
        return self.ladder.step(self._around.now(), self._around.memory.blocks)

    @property
    def is_unclear(self) -> bool:
        """Whether nobody knows what came of the latest ask."""
        return self._pending is not None

    def _try(self, step: Try) -> Placed | None:
        if step.not_before is not None:
            self._sleep_until(step.not_before)
        candidate = step.candidate
        for one in self.ladder.passed_over(candidate):
            self._note(passed_over(one, self._around.now()))
        backend, request, ref = self._around.backends[candidate.backend], None, None
        told = (struck := self._struck(candidate)) + self._so_far
        try:
            request = self._request(backend, candidate)
            told = f"{struck}{_end_it(request)}"
            ref = self._created(backend, request)
            self._keep_to_record(backend, request)
            self._note(accepted(candidate, self._around.now()))
            return Placed(ref=ref, backend=backend, candidate=candidate, attempts=self.ladder.attempts)
        except KeyboardInterrupt:
            with contextlib.suppress(KeyboardInterrupt):  # pressed again: it is told as far as it is known
                if request is not None:
                    told = f"{struck}{self._withdraw(backend, request)}"
            raise KeyboardInterrupt(told) from None
        except OvertakenError:
            raise
        except GputrainError as error:
            if ref is not None:  # it is made, so this is no answer of the place: none other may be asked
                raise unread(ref, error) from error
            if request is None and (self.is_unclear or isinstance(error, TransientError)):
                raise  # either nothing was asked of the place, or what came of it stands in the record
            if request is not None and isinstance(error, guard.UnforeseenError):
                raise  # it may be there: its record stays, and no other place is asked
            self._refused(candidate, error)
            return None

    def _request(self, backend: Backend, candidate: Candidate) -> Request:
        """The request, whole, with its ask written down; the same one again where its answer was lost."""
        if self._pending is not None and self._pending[0] == candidate:
            if not self._is_shared:  # else its record is written, and by somebody who may be at it
                self._claim.keep()
            return self._pending[1]
        self._pending, self._is_shared = None, False
        recorder = self._around.boards.recorder(backend.name)
        bundle = self._staged.on(backend, recorder, self._claim.record)
        start = Start(
            spec=self._spec, candidate=candidate, job_id=self._job_id, bundle=bundle,
            attempt=self._attempt, nonce=secrets.token_hex(6),
        )  # fmt: skip
        # Images are looked up and the code is sent first: once the ask is written, its age begins.
        request = whole(backend, start)
        self._staged.send(backend)
        record = self._record(bundle)
        if recorder is not None:
            chosen = seam.choices(recorder, backend.name)
            record = attrs.evolve(record, settings={**record.settings, backend.name: chosen})
        ask = Ask(
            way=way_of(candidate), attempt=self._attempt, names=request.names, nonce=start.nonce,
            price_usd_h=candidate.price_usd_h, image=request.image,
        )  # fmt: skip
        since = 0.0 if record.over else record.waiting_since  # who asks anew waits anew
        self._claim.ask(attrs.evolve(record, over="", waiting_since=since), ask)
        self._pending = (candidate, request)  # from here on something may be there, until an answer says no
        return request

    def _record(self, bundle: Bundle) -> Record:
        there = self._claim.record
        if there is not None and not self._may_rest:
            return there
        code = Code(location=bundle.location, argv=bundle.argv, sha256=bundle.sha256)
        spec, ways = spec_of(self._spec, bundle.argv), tuple(map(way_of, self.ladder.candidates))
        if there is not None:  # an earlier submit of the key made nothing: what is submitted now is the job
            return attrs.evolve(there, spec=spec, code=code, ways=ways)
        return Record(job_id=self._job_id, home=self._claim.home, spec=spec, code=code, ways=ways)

    def _created(self, backend: Backend, request: Request) -> JobRef:
        """Ask; a place that lets us wait for the next minute's calls is waited for with the record kept."""
        record, waited_s = self._claim.record, 0.0
        if record is not None and (come := keep_apart(self._around.boards, record)) is not None:
            raise self._claim.overtaken_by(come)
        while True:
            try:
                return seam.create(backend, request)
            except (UnclearError, guard.UnforeseenError):  # noqa: PERF203  # nobody knows what was done
                with contextlib.suppress(GputrainError):
                    if self._is_listed(backend):  # and lists may tell of it late
                        self._claim.keep()
                raise
            except TransientError as error:
                pause_s = error.refills_in_s
                if pause_s is None or waited_s + pause_s > QUEUE.budget_s:
                    if isinstance(error, UndoneError):
                        self._take_back(backend)
                    raise
                self._around.sleep(pause_s)
                waited_s += pause_s
                self._claim.keep()
            except GputrainError:
                self._take_back(backend)
                raise

    def _take_back(self, backend: Backend) -> None:
        """See that nothing is left of a refused ask which was sent before, or another may have repeated.

        Raises:
            OvertakenError: another has made it, and somebody was told: that refusal is no answer for the job.
            UnclearError: nobody can tell what is left.
        """
        recorder = self._around.boards.recorder(backend.name)
        if recorder is None or self._claim.record is None or self._claim.record.last is None:
            return
        is_ours = self._claim.has_just_written()
        if is_ours and not (isinstance(recorder, BarsLate) and seam.may_come(recorder, self._claim.record)):
            return
        if not is_ours:
            self._claim.withdraw(goes_on=True)  # first: from now on nobody is told of it
        record, self._claim.record = self._claim.record, self._claim.record.late()
        try:
            if take_back(recorder, record) and not self._is_shared:  # else its sender may have had no answer
                self._claim.record = record
        except UnclearError:
            self._pending = None  # what is asked for next is another ask, beside which this one is barred
            raise

    def _keep_to_record(self, backend: Backend, request: Request) -> None:
        """What was made goes, if making it took so long that another has asked elsewhere."""
        try:
            self._claim.confirm(is_shared=self._is_shared, is_listed=self._is_listed(backend))
        except OvertakenError:
            clear(self._around, backend, request, self._claim.record)
            raise

    def _is_listed(self, backend: Backend) -> bool:
        """Whether what was made there is found in lists alone."""
        return (recorder := self._around.boards.recorder(backend.name)) is not None and not recorder.repeats

    def _refused(self, candidate: Candidate, error: GputrainError) -> None:
        attempt = refused(candidate, error, self._around.now())
        self._note(attempt)
        if isinstance(error, TransientError) and not isinstance(error, UndoneError):
            return
        if self._pending is not None:  # else it was refused before it was asked for
            self._pending = None
            self._claim.answer(attempt.outcome.value, attempt.scope.value, attempt.answer)

    def _note(self, attempt: Attempt) -> None:
        place = f"{attempt.candidate.backend} {attempt.candidate.place}"
        log.info("%s at %s: %s", self._job_id, place, attempt.answer)
        self.ladder = self.ladder.after(attempt)
        self._around.memory.learn(attempt)

    def _sleep_until(self, when: datetime) -> None:
        try:
            self._around.wait(max(0.0, (when - self._around.now()).total_seconds()))
        except (KeyboardInterrupt, StoppedError) as stop:
            if self._pending is not None:  # what was asked for last may be there
                candidate, request = self._pending
                told = self._withdraw(self._around.backends[candidate.backend], request)
                raise type(stop)(f"{self._struck(candidate)}{told}") from None
            if isinstance(stop, StoppedError):
                raise
            raise KeyboardInterrupt(f"submit was interrupted while it waited; {self._so_far}") from None

    @property
    def _so_far(self) -> str:
        if not self._may_rest:
            return "the job goes on with whoever waits for it"
        count = self.ladder.attempts.asked
        where = f" at the {count} place{'s' * (count != 1)} tried so far" if count else ""
        return f"nothing was made{where}"

    def _struck(self, candidate: Candidate) -> str:
        who = "submit" if self._may_rest else "the wait"
        return f"{who} was interrupted while {candidate.backend} was asked for {candidate.place}; "

    def _withdraw(self, backend: Backend, request: Request) -> str:
        if self._is_shared:  # another process asks for the same, and may live
            return _end_it(request)
        log.warning("withdrawing %s from %s %s", self._job_id, backend.name, request.ref.place)
        record, since = self._claim.record, self._around.since()
        try:
            # First: whoever comes meanwhile takes up nothing that is on its way out.
            self._claim.withdraw(goes_on=not self._may_rest)
            is_gone = clear(self._around, backend, request, record)
            if not is_gone and self._claim.give_up() and since.seconds < TRIED_S:  # it came meanwhile
                is_gone = clear(self._around, backend, request, self._claim.record)
            if is_gone and self._may_rest:
                self._claim.drop()
                self._pending = None
        except (GputrainError, KeyboardInterrupt):
            is_gone = False
        if not is_gone:  # its record stays, and by it whoever comes with the same key ends it
            return _end_it(request)
        elsewhere = f", and {self._so_far}" if self.ladder.attempts.asked or not self._may_rest else ""
        return f"what was made there was withdrawn{elsewhere}"


def _end_it(request: Request) -> str:
    return f"it may be there: end it with gputrain.attach({request.ref.uri!r}).cancel()"
