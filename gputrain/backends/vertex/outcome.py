"""From a look at a job to an observation: an end is joined with its reason and the ranks' own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.results import asked_by, first_cause, read_result, silence
from gputrain.backends.vertex import logs
from gputrain.backends.vertex.identity import Latest, found_no_room
from gputrain.backends.vertex.locks import Locks
from gputrain.backends.vertex.states import NO_LOGS, SeenJob, failure_of, state_of
from gputrain.entrypoint import contract
from gputrain.errors import AccessError
from gputrain.gcp import Access
from gputrain.gcp.shared import Kept
from gputrain.lifecycle import Failure, Observation, State
from gputrain.records import CANCELLED

REASON_COMES_WITHIN_S = 90.0
"""``customJob.error`` is filled in about a minute after the end. Source: Vertex AI's pages, 2026-11-20."""

ENDS = 2000
"""Ends that are kept at most, 2 KB each: one that is forgotten is worked out again."""


@attrs.define
class _Known:
    """What is remembered of a job until its end is."""

    winner: str | None = None
    """Who had the lock when it had ended well; `CANCELLED` where it had not."""
    ended_since: float | None = None
    """When it was first seen to have failed, by our clock."""
    restarts: int | None = None
    ran: bool = False
    """Whether the latest look saw it run; with `restarts`, what the next one counts by."""


class JobEnds:
    """What became of jobs; an end is worked out once."""

    def __init__(self, access: Access, locks: Locks, latest: Latest) -> None:
        self._access = access
        self._locks = locks
        self._latest = latest
        self._ends: Kept[str, Observation] = Kept(most=ENDS)
        self._live: Kept[str, _Known] = Kept()

    def superseded_by(self, seen: SeenJob) -> str:
        """The number of the job that ran instead, where this one ended well by doing nothing; else empty."""
        if state_of(seen) is not State.SUCCEEDED or self._ends.get(seen.resource):
            return ""
        winner = self._winner(seen)
        return "" if winner in (seen.number, CANCELLED) else winner

    def came_to_nothing(self, seen: SeenJob) -> bool:
        """Whether its id may have been asked for anew: no machines, cancelled, or no lock at a good end."""
        if state_of(seen) is not State.SUCCEEDED:
            return found_no_room(seen) or seen.was_cancelled
        end = self._ends.get(seen.resource)
        return self._winner(seen) == CANCELLED if end is None else end.state is not State.SUCCEEDED

    def observe(self, seen: SeenJob) -> Observation:
        """The observation that a look amounts to."""
        end = self._ends.get(seen.resource)
        if end is not None:
            return end
        known = self._known(seen)
        state = state_of(seen)
        did_nothing = state is State.SUCCEEDED and self._winner(seen) == CANCELLED
        if did_nothing:
            state = State.CANCELLED
        error = {"code": seen.error_code, "message": seen.error}
        plain = Observation(
            state=state,
            detail=_detail(seen, state),
            started_at=None if did_nothing else seen.started_at,
            ended_at=seen.ended_at,
            attempt=self._restarts(seen, known),
            place=seen.region,
            ask=seen.nonce,
            raw={"name": seen.resource, "state": seen.state, "error": error},
        )
        if state is State.FAILED:
            return self._failed(seen, plain, known)
        if not seen.has_ended:
            return plain
        documents = [] if state is State.SUCCEEDED else self._documents(seen)[0]
        if state is State.EXPIRED:
            plain = attrs.evolve(plain, detail="; ".join(filter(None, (plain.detail, silence(documents)))))
        return self._ended(
            seen, attrs.evolve(plain, exit_code=_exit_code(documents, state), failure=_wished(state, plain))
        )

    def _known(self, seen: SeenJob) -> _Known:
        return self._live.get(seen.resource) or self._live.put(seen.resource, _Known())

    def _winner(self, seen: SeenJob) -> str:
        """Who had the lock when a job ended well: only that one has trained.

        `CANCELLED` also where nobody has it any more, and the job says that it did nothing, or something else
        was asked for since; empty where nothing speaks against it: the lock was removed long after, or may
        not be read.
        """
        known = self._known(seen)
        if known.winner is None:
            number = self._locks.of(seen).number
            if not number and (self._locks.is_idle(seen) or self._latest(seen) not in ("", seen.nonce)):
                number = CANCELLED
            known.winner = number
        return known.winner

    def _ended(self, seen: SeenJob, end: Observation) -> Observation:
        self._live.drop(seen.resource)
        return self._ends.put(seen.resource, end)

    def _restarts(self, seen: SeenJob, known: _Known) -> int:
        """How often it was started again. Vertex AI does not tell, but locks do, and so do looks: what they
        see is counted, and the lock is read where others may have seen more, first and last."""
        if not seen.may_restart:
            return 0
        count, runs = known.restarts, seen.state == "JOB_STATE_RUNNING"
        if seen.started_at is None:
            count, runs = 0, True  # the run to come is the first
        elif count is None or seen.has_ended:
            count = max(count or 0, self._locks.of(seen).restarts)
        elif runs and not known.ran:
            count += 1
        known.restarts, known.ran = count, runs
        return count

    def _failed(self, seen: SeenJob, plain: Observation, known: _Known) -> Observation:
        documents, note = self._documents(seen)
        cause = first_cause(documents)
        if cause is None and not seen.error and not self._is_late(seen, known):
            detail = "it has failed; Vertex AI tells the reason about a minute later"
            return attrs.evolve(plain, state=None, detail=detail)
        failure = cause or _stopped(documents) or failure_of(seen.error)
        if cause is None and note:
            failure = attrs.evolve(failure, message=f"{failure.message} ({note})")
        return self._ended(
            seen,
            attrs.evolve(plain, failure=failure, detail=failure.message, exit_code=failure.exit_code),
        )

    def _documents(self, seen: SeenJob) -> tuple[list[Mapping[str, Any]], str]:
        """The agents' result documents, and why there are none.

        The code of a failed job may have run though it was never RUNNING: it ended before that was told.
        """
        if seen.started_at is None and state_of(seen) is not State.FAILED:
            return [], ""
        try:
            documents = [read_result(one) for one in logs.results(self._access, seen)]
            empty = seen.started_at and not documents and logs.are_empty(self._access, seen)
        except AccessError as error:
            return [], f"its logs could not be read: {error.what}. {error.fix}"
        return documents, NO_LOGS if empty else ""

    def _is_late(self, seen: SeenJob, known: _Known) -> bool:
        """True when the reason is overdue, by Google's clock and by ours: either may be wrong."""
        now = self._access.now()
        if known.ended_since is None:
            known.ended_since = now
        ended = seen.ended_at.timestamp() if seen.ended_at else now
        return max(now - known.ended_since, now - ended) > REASON_COMES_WITHIN_S


def _exit_code(documents: list[Mapping[str, Any]], state: State | None) -> int | None:
    """What node 0 left with, where it lived to tell it."""
    if state is State.SUCCEEDED:
        return 0
    return next((one[contract.R_EXIT_CODE] for one in documents if contract.R_EXIT_CODE in one), None)


def _stopped(documents: list[Mapping[str, Any]]) -> Failure | None:
    """Ranks that were asked to stop, and saved."""
    for one in documents:
        if one.get(contract.R_STATE) == contract.STATE_STOPPED:
            return Failure(
                kind=causes.STOPPED.kind,
                message=f"{asked_by(documents)}; the ranks saved and left: submit again to go on from there",
                exit_code=contract.STOPPED,
            )
    return None


def _wished(state: State | None, plain: Observation) -> Failure | None:
    """The end of a job that was cancelled, or had its time."""
    if state is State.CANCELLED:
        return Failure(kind=causes.CANCELLED.kind, message=plain.detail)
    if state is State.EXPIRED:
        cause = causes.TIME_LIMIT if plain.started_at else causes.WAIT_LIMIT
        return Failure(kind=cause.kind, message=plain.detail)
    return None


def _detail(seen: SeenJob, state: State | None) -> str:
    if state is State.EXPIRED:
        return "it ran for all of max_run_duration" if seen.started_at else "it waited too long for machines"
    word = seen.state.removeprefix("JOB_STATE_").lower()
    told = f"{word}: {seen.error}" if seen.error else word
    return "; ".join([told, *seen.links]) if state is State.RUNNING else told
