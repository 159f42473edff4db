"""A submit, from top to bottom: one key is one job, at the first option of its plan that takes it.

Each write is a compare-and-swap of the record (docs/design/record.md): a process that loses one reads again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import attrs

from gputrain import causes
from gputrain.backends.base import Backend, Request, Status
from gputrain.errors import GputrainError, StoppedError, TransientError
from gputrain.jobstore import Attempt, Conflict, JobRecord, Stored, Wanted, check_alike
from gputrain.lifecycle import Failure, State
from gputrain.orchestration.look import FRESH_S, Context, Found, found_of, grace_s_of, look, take_step
from gputrain.orchestration.options import draw, remaining, with_answer
from gputrain.orchestration.reconciler import COMES_WITHIN_S
from gputrain.planning import Attempt as Answer, Candidate, Failover
from gputrain.planning.attempts import passed_over, refused
from gputrain.planning.failover import StopReason

log = logging.getLogger("gputrain")

ASK_AGAIN_S = 5.0
"""Seconds between two looks at a launch of another process, and between two tries."""
TRIES = 3  # of a launch that gets no answer
LONGEST_TURN_S = 1800.0
"""How long many launches wait for each other: Vertex AI takes 60 creates a minute (its page, 2026-11-20)."""
JUST_LAUNCHED = Status(state=State.QUEUED, exists=True, is_whole=True)


@attrs.frozen(kw_only=True)
class Stopped:
    """The end of a launch without a job: what was answered, and why nothing more is tried."""

    failover: Failover
    reason: StopReason
    stored: Stored


def submit(
    context: Context, first: JobRecord, plan: Sequence[Candidate], give_up_at: datetime | None, *,
    may_exist: bool = True,
) -> Stored | Stopped:  # fmt: skip
    """The job of this id: found, or launched at the first option that takes it.

    Args:
        first: the record that a new job is to have, without an attempt.
        plan: its candidates, in their order.
        give_up_at: when waiting for room ends; None: each place is asked once.
        may_exist: False for an id that was just drawn.

    Raises:
        ConflictError: the key is that of a job with another spec.
        GputrainError: as of `launch`.
    """
    began = context.now()
    while True:
        stored = context.jobs.read(first.job_id) if may_exist else None
        may_exist = True
        with suppress(Conflict):  # another process was quicker: read again
            if stored is None or (stored.record.has_ended and not stored.record.has_job):
                if stored and stored.record.attempt and stored.record.backend in context.backends:
                    context.backends[stored.record.backend].terminate(stored.record, 0)  # a cut-off cancel
                draft = Stored(record=first, version=stored.version if stored else 0, age_s=0.0)
                failover = Failover(candidates=tuple(plan), give_up_at=give_up_at)
                return launch(context, draft, failover, is_first=True)
            what = f"the key of {first.job_id} belongs to a job with another spec; no job was made"
            check_alike(stored.record.spec, first.spec, what, "submit the same spec, or take another key")
            if stored.record.has_job:
                return stored
            found = act(context, look(context, first.job_id))
            if found.stored.record.has_job:
                return found.stored
            if found.stored.record.has_ended:
                continue
            if found.state is None and (context.now() - began).total_seconds() > COMES_WITHIN_S:
                what = f"{first.job_id} is launched by another process, and cannot be seen"
                raise TransientError(what, why=found.status.detail, fix="fix that, and submit it again")
        context.sleep(ASK_AGAIN_S)


def act(context: Context, found: Found) -> Found:
    """Take the one step that a look says comes next, if any. Errors as of `launch`."""
    try:
        stored, failover = take_step(context, found)
        if failover is None:
            return found if stored is found.stored else found_of(context, stored, found.status, found.at)
        outcome = launch(context, stored, failover, is_first=False)
    except Conflict:  # another process took the step
        return look(context, found.stored.record.job_id)
    stored = outcome if isinstance(outcome, Stored) else outcome.stored
    return found_of(context, stored, JUST_LAUNCHED, found.at)


def launch(context: Context, draft: Stored, failover: Failover, *, is_first: bool) -> Stored | Stopped:
    """Launch a job at the first option that takes it: a first submit, a restart, or a move elsewhere.

    Args:
        draft: the record as it is to be, between two attempts, and the version that it follows; 0: none.
        failover: the candidates, and what they have answered.
        is_first: a submit, which waits for room here, and which Ctrl-C ends; else the job is left due.

    Raises:
        Conflict: another process takes this step.
        TransientError: a backend's answer was lost: the record stays "launching" until the next look.
        StoppedError, KeyboardInterrupt: the submit was stopped, and what it had begun is cancelled.
    """
    steps = _Launch(context, draft)
    try:
        while not isinstance(step := failover.step(context.now(), context.memory.blocks), StopReason):
            if isinstance(step, Candidate):
                for one in failover.passed_over(step):
                    failover = steps.add_answer(passed_over(one, context.now()), failover)
                answer = steps.launch_at(step)
                if answer is None:
                    return steps.stored
                failover = steps.add_answer(answer, failover)
            elif is_first:
                steps.wait_for_room(step)
                failover = failover.again(context.refresh(failover.candidates))
            else:
                break
    except (StoppedError, KeyboardInterrupt) as stopped:
        if not is_first:  # the next look reconciles it
            raise
        made = steps.cancel()
        raise KeyboardInterrupt(made) if isinstance(stopped, KeyboardInterrupt) else stopped from None
    reason = step if isinstance(step, StopReason) else StopReason.NOWHERE_LEFT
    stays_due = isinstance(step, datetime) or (
        draft.record.restarts > 0 and reason is StopReason.NOWHERE_LEFT
    )
    steps.end(failover, None if stays_due else reason)
    return Stopped(failover=failover, reason=reason, stored=steps.stored)


@attrs.define
class _Launch:
    """The record while a launch changes it, and the steps that do so."""

    context: Context
    stored: Stored
    """As it is to be: what places answered is written with the next swap."""

    def launch_at(self, candidate: Candidate) -> Answer | None:
        """One option: None where it takes the job, or what its place answered."""
        context, record = self.context, self.stored.record
        backend = context.backends[candidate.backend]
        spec = remaining(record)
        assert spec is not None, "a job without time or money left is ended, not launched"
        attempt = draw(record, candidate, context.now())
        try:
            bundle = context.code(record, backend.name)
            record = attrs.evolve(record, code=bundle.sha256, argv=bundle.argv)
            spec = spec.replace(image=record.image) if record.image else spec
            request = backend.build_request(record, spec, attempt, candidate, bundle)
            self._swap(record.begin(attrs.evolve(attempt, image=request.image)))  # only it may train now
            began = context.now()
            handle = self._request(backend, request, began)
        except (Conflict, TransientError, StoppedError):
            raise
        except GputrainError as error:
            return refused(candidate, error, context.now())
        self._write_handle(backend, attempt, handle)
        return None

    def _request(self, backend: Backend, request: Request, began: datetime) -> str:
        """The attempt's handle. Without an answer it is requested again, under the same names."""
        context, tries = self.context, 0
        while True:
            waited_s = (context.now() - began).total_seconds()
            if waited_s > FRESH_S:
                there = context.jobs.read(request.job_id)
                if there is None or there.version != self.stored.version:
                    raise Conflict(f"{request.job_id} was changed by another process")
            try:
                return backend.launch(request)
            except TransientError as error:
                tries += error.refills_in_s is None
                wait_s = ASK_AGAIN_S if error.refills_in_s is None else error.refills_in_s
                if tries == TRIES or waited_s + wait_s > LONGEST_TURN_S:
                    error.fix = f"submit again with the same key; or find {request.job_id} in trainer.jobs()"
                    raise
                context.sleep(wait_s)

    def _write_handle(self, backend: Backend, attempt: Attempt, handle: str) -> None:
        """Write the handle down. Where the record has changed, it decides."""
        begun = self.stored.record
        try:
            self._swap(begun.launched(handle))
        except Conflict:
            there = self.context.jobs.read(begun.job_id)
            if there is None or there.record.attempt is None or there.record.attempt.id != attempt.id:
                backend.terminate(begun, 0)
                raise
            if there.record.wanted is Wanted.CANCEL and not there.record.has_ended:
                backend.terminate(there.record, grace_s_of(there.record.training_spec))
            self.stored = there  # or another process adopted it

    def add_answer(self, answer: Answer, failover: Failover) -> Failover:
        """The failover with what a place answered, which the next swap writes."""
        log.info("%s at %s: %s", self.stored.record.job_id, answer.candidate.place, answer.answer)
        self.stored = attrs.evolve(self.stored, record=with_answer(self.stored.record, answer))
        self.context.memory.blocks = self.context.memory.blocks.after(answer)
        return failover.after(answer)

    def wait_for_room(self, until: datetime) -> None:
        """Rest between two rounds, with what was answered so far written down."""
        log.info("%s finds no room and asks again at %s", self.stored.record.job_id, until)
        if self.stored.version:  # else nothing was requested yet, and no key is held
            self._swap(self.stored.record.wait(self.context.now().timestamp()))
        self.context.sleep(max(0.0, (until - self.context.now()).total_seconds()))

    def cancel(self) -> str:
        """End a job whose submit was stopped; what became of it."""
        record, made = self.stored.record, "nothing was made"
        if self.stored.version:
            made = f"{record.job_id} may have started: look at it, or cancel it"
            with suppress(GputrainError, KeyboardInterrupt):  # pressed again: the record is what counts
                self._swap(record.end(causes.WITHDRAWN.kind))
                made = "it is cancelled; run trainer.clean_up(), as machines may be left"
                if record.attempt is not None:
                    self.context.backends[record.backend].terminate(record, 0)
                made = "what was made is cancelled"
        return f"submit was interrupted; {made}"

    def end(self, failover: Failover, reason: StopReason | None) -> None:
        """Write down that no place took the job, and why it ends. None: it stays due for a later round."""
        record = self.stored.record.wait(self.context.now().timestamp())
        if reason is not None:
            kind = failover.cause_of(reason).kind
            why = record.history[-1].message if record.history else ""
            record = record.end(kind, detail=why, failure=Failure(kind=kind, message=why))
        if self.stored.version:
            self._swap(record)

    def _swap(self, record: JobRecord) -> None:
        self.stored = self.context.jobs.swap(record, self.stored.version)
