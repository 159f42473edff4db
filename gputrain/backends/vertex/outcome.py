"""From a look at a job to an observation: an end is joined with its reason and the ranks' own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.results import first_cause, read_result, silence
from gputrain.backends.vertex import diagnosis, logs
from gputrain.backends.vertex.locks import Locks, Restarts
from gputrain.backends.vertex.states import SeenJob, state_of
from gputrain.entrypoint import contract
from gputrain.errors import AccessError
from gputrain.gcp import Access
from gputrain.gcp.shared import Kept
from gputrain.lifecycle import Failure, Observation, State
from gputrain.records import CANCELLED

REASON_COMES_WITHIN_S = 90.0
"""``customJob.error`` is filled in about a minute after the end. Source: Vertex AI's pages, 2026-11-20."""


class JobEnds:
    """What became of jobs; an end is worked out once."""

    def __init__(self, access: Access, locks: Locks) -> None:
        self._access = access
        self._locks = locks
        self._restarts = Restarts(locks)
        self._ends: Kept[str, Observation] = Kept()
        self._ended_since: Kept[str, float] = Kept()
        self._last: Kept[str, tuple[SeenJob, Observation]] = Kept(idle_s=120.0)
        self._winners: Kept[str, str] = Kept()

    def superseded_by(self, seen: SeenJob) -> str:
        """The number of the job that ran instead, where this one ended well by doing nothing; else empty."""
        if state_of(seen) is not State.SUCCEEDED or not seen.job_id:
            return ""
        winner = self._winners.get(seen.resource)
        if winner is None:
            winner = self._winners.put(seen.resource, self._locks.of(seen).number)
        return "" if winner in (seen.number, CANCELLED) else winner

    def observe(self, seen: SeenJob) -> Observation:
        """The observation that a look amounts to."""
        end = self._ends.get(seen.resource)
        if end is not None:
            return end
        last, told = self._last.get(seen.resource) or (None, None)
        if told is not None and last is seen:
            return told
        state = state_of(seen)
        if state is State.SUCCEEDED and self._winners.get(seen.resource) == CANCELLED:
            state = State.CANCELLED  # it came after the cancel, and did nothing
        plain = Observation(
            state=state,
            detail=_detail(seen, state),
            started_at=seen.started_at,
            ended_at=seen.ended_at,
            attempt=self._restarts.of(seen),
            place=seen.region,
            ask=seen.nonce,
            raw=_raw(seen),
        )
        if state is State.FAILED:
            return self._failed(seen, plain)
        if seen.has_ended:
            documents = [] if state is State.SUCCEEDED else self._documents(seen)[0]
            if state is State.EXPIRED:
                plain = attrs.evolve(
                    plain, detail="; ".join(filter(None, (plain.detail, silence(documents))))
                )
            code = _exit_code(documents, state)
            plain = attrs.evolve(plain, exit_code=code, failure=_wished(state, plain))
            self._ends.put(seen.resource, plain)
            self._last.drop(seen.resource)
        else:
            self._last.put(seen.resource, (seen, plain))
        return plain

    def _failed(self, seen: SeenJob, plain: Observation) -> Observation:
        documents, note = self._documents(seen)
        cause = first_cause(documents)
        if cause is None and not seen.error and not self._is_late(seen):
            detail = "it has failed; Vertex AI tells the reason about a minute later"
            return attrs.evolve(plain, state=None, detail=detail)
        failure = cause or _with_note(_stopped(documents) or diagnosis.failure_of(seen.error), note)
        end = attrs.evolve(plain, failure=failure, detail=failure.message, exit_code=failure.exit_code)
        self._ends.put(seen.resource, end)
        self._ended_since.drop(seen.resource)
        self._last.drop(seen.resource)
        return end

    def _documents(self, seen: SeenJob) -> tuple[list[Mapping[str, Any]], str]:
        """The agents' result documents, and why there are none."""
        if seen.started_at is None:
            return [], ""
        try:
            documents = [read_result(one) for one in logs.results(self._access, seen)]
            empty = not documents and logs.are_empty(self._access, seen)
        except AccessError as error:
            return [], f"its logs could not be read: {error.what}. {error.fix}"
        return documents, diagnosis.NO_LOGS if empty else ""

    def _is_late(self, seen: SeenJob) -> bool:
        """True when the reason is overdue, by Google's clock and by ours: either may be wrong."""
        now = self._access.now()
        since = self._ended_since.get(seen.resource)
        if since is None:
            since = self._ended_since.put(seen.resource, now)
        ended = seen.ended_at.timestamp() if seen.ended_at else now
        return max(now - since, now - ended) > REASON_COMES_WITHIN_S


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
                message="the ranks were asked to stop, saved and left; submit again to go on from there",
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


def _with_note(failure: Failure, note: str) -> Failure:
    return attrs.evolve(failure, message=f"{failure.message} ({note})") if note else failure


def _detail(seen: SeenJob, state: State | None) -> str:
    if state is State.EXPIRED:
        return "it ran for all of max_run_duration" if seen.started_at else "it waited too long for machines"
    word = seen.state.removeprefix("JOB_STATE_").lower()
    return f"{word}: {seen.error}" if seen.error else word


def _raw(seen: SeenJob) -> dict[str, Any]:
    error = {"code": seen.error_code, "message": seen.error}
    return {"name": seen.resource, "state": seen.state, "error": error}
