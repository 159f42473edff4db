"""What one look at attempts sees: few calls for many jobs, why one waits, and each end with its first cause.

Of two jobs that one attempt became, the one that holds the attempt's claim counts: the other leaves with 0,
which Vertex AI calls success as well.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.agent_reports import asked_by, first_cause, silence
from gputrain.backends.base import Status
from gputrain.backends.run_reports import RunReports
from gputrain.backends.vertex import logs
from gputrain.backends.vertex.jobs import PAGE_SIZE, JobService, region_of
from gputrain.backends.vertex.request import claim_of
from gputrain.backends.vertex.states import NO_LOGS, SeenJob, failure_of, state_of
from gputrain.causes import Cause
from gputrain.concurrency import gather
from gputrain.errors import AccessError, GputrainError, TransientError
from gputrain.google import GoogleClient, Objects
from gputrain.google.cache import Cache, Pace, Recent
from gputrain.jobstore import Attempt, JobRecord, Wanted
from gputrain.lifecycle import Failure, State
from gputrain.runtime import contract

FEW = 2
"""Up to so many jobs of a region are looked at one by one, which is the faster way to see their end."""
FRESH_S = 1.0
PAGE_COSTS_S = 0.6
"""A page of a hundred jobs in each 0.6 s: 100 calls a minute, of 600 allowed for a region (2026-11-20), and a
change among a thousand jobs is in a list after 6 s."""
FORGET_S = 120.0
"""A job that was not looked at for so long does not count among the many."""
AT_ONCE = 4
"""Calls side by side for jobs that the list of a region does not show."""
REASON_WITHIN_S = 90.0
"""``customJob.error`` is filled in about a minute after the end, and log lines come late as well. Source:
Vertex AI's pages, 2026-11-20."""
PATIENCE_S = 60.0
"""A job may wait so long without a reason: most have their machines in a minute or two."""
READ_AGAIN_S = 30.0
"""What was read holds so long: Vertex AI itself looks for machines about once a minute (2026-11-22)."""
READ_S = 6.0
"""Seconds of one read: ten of the sixty reads a minute that logs share with us."""

Document = Mapping[str, Any]
Living = Mapping[str, Sequence[SeenJob]]
"""The jobs of a region that have not ended, by the ids of their attempts."""

_WAITS = (State.QUEUED, State.PROVISIONING)
_NUMBER = re.compile(r"[0-9]{1,30}(?![^ ])")


class Looks:
    """Looks at the attempts of records."""

    def __init__(self, jobs: JobService) -> None:
        self._jobs, self._now = jobs, jobs.access.now
        self._reasons = Reasons(jobs.access)
        self._asked: Recent[str, str] = Recent(idle_s=FORGET_S, now=self._now)
        self._singly: Cache[str, tuple[SeenJob, ...]] = Cache(fresh_s=FRESH_S, now=self._now)
        self._living: Cache[str, Living] = Cache(fresh_s=_fresh_s, failure_s=5.0, now=self._now)
        self._seen_restarts: Recent[str, tuple[int, bool]] = Recent()
        self._ended_since: Recent[str, float] = Recent()
        self._ends: Recent[tuple[str, Wanted], Status] = Recent()

    def inspect_many(self, records: Sequence[JobRecord]) -> dict[str, Status]:
        """As of `Backend`; what has ended is not asked for again."""
        ends = {one.job_id: self._ends.get((one.current.id, one.wanted)) for one in records}
        records = [one for one in records if ends[one.job_id] is None]
        for record in records:
            self._asked.put(record.current.id, record.current.option.place)
        counts = Counter(region for _, region in self._asked.items())
        crowded = {region for region, count in counts.items() if count > FEW}

        def look(record: JobRecord) -> Status | GputrainError:
            try:
                return self._inspect(record, is_of_many=record.current.option.place in crowded)
            except GputrainError as error:
                return error

        listed = {attempt for region in crowded for attempt in self._listed(region)}
        plain = [one for one in records if one.current.id in listed]  # no call of its own for each
        others = [one for one in records if one.current.id not in listed]
        looked = zip((*plain, *others), (*map(look, plain), *gather(look, others, AT_ONCE)))
        found = {record.job_id: seen for record, seen in looked}
        refusals = [one for one in found.values() if isinstance(one, (AccessError, TransientError))]
        if refusals and len(refusals) == len(found):
            raise refusals[0]
        seen = {
            job_id: Status(detail=one.what) if isinstance(one, GputrainError) else one
            for job_id, one in found.items()
        }
        return {job_id: end for job_id, end in ends.items() if end is not None} | seen

    def _inspect(self, record: JobRecord, *, is_of_many: bool) -> Status:
        attempt = record.current
        found = self._find(attempt, is_of_many=is_of_many)
        if not found and not attempt.handle:
            return Status(state=State.QUEUED, detail="asked for: no list shows a job of it yet")
        if not found:
            message = f"{attempt.handle} is not there any more: somebody has deleted it"
            return _failed(Status(state=State.FAILED), causes.VANISHED, message)
        holder = ""
        if len(found) > 1 or found[0].has_ended:
            holder = self._holder(record)
        seen = self._counting(attempt, found, holder)
        if not seen.has_ended:
            status = self._reasons.explain(seen, _plain(seen))
        else:
            self._asked.drop(attempt.id)
            status = self._end(record, seen, holder)
        status = attrs.evolve(status, restarts=self._restarts(seen, status))
        if status.state is not None and status.state.is_terminal:
            self._ends.put((attempt.id, record.wanted), status)
        return status

    def _restarts(self, seen: SeenJob, status: Status) -> int:
        """How often these looks saw it run again after an interruption: Vertex AI reports no count."""
        count, was_waiting = self._seen_restarts.get(seen.resource) or (0, False)
        is_waiting = status.state is State.INTERRUPTED
        count += was_waiting and status.state in (State.RUNNING, State.SUCCEEDED)
        self._seen_restarts.put(seen.resource, (count, is_waiting))
        return count

    def _find(self, attempt: Attempt, *, is_of_many: bool) -> tuple[SeenJob, ...]:
        """The job that the record names, or else all of the attempt; others too where a list has them."""
        region, resource = region_of(attempt), self._jobs.resource_of(attempt)
        found: tuple[SeenJob, ...] = ()
        if is_of_many:
            found = tuple(self._listed(region).get(attempt.id, ()))
        if resource and not any(resource.endswith(f"/{one.number}") for one in found):
            found += self._singly.get(resource, lambda: self._jobs.get(resource, attempt))
        return found or self._jobs.find(attempt)  # what one call does not find, a list may show

    def _listed(self, region: str) -> Living:
        return self._living.get(region, lambda: self._list(region))

    def _list(self, region: str) -> Living:
        """What a list lacks is looked for by name, so it need not be whole."""
        found: dict[str, list[SeenJob]] = {}
        for one in self._jobs.living(region).items:
            found.setdefault(one.attempt, []).append(one)
        return found

    @property
    def _reports(self) -> RunReports:
        bucket = self._jobs.settings.code_bucket
        return RunReports(stored=Objects(self._jobs.access, bucket.name), bucket=bucket)

    def _holder(self, record: JobRecord) -> str:
        """The number of the job that holds the attempt's claim; empty where none does."""
        name = claim_of(self._jobs.settings.code_bucket, record.job_id, record.current.id)
        text = self._reports.stored.read_range(name, 0, 100)
        number = _NUMBER.match(text.decode("utf-8", "replace"))
        return number[0] if number else ""

    def _counting(self, attempt: Attempt, found: Sequence[SeenJob], holder: str) -> SeenJob:
        """The claim's holder; before there is one, the job of the record, else the one that lives."""
        if holder and not any(one.number == holder for one in found):
            found = (*self._jobs.get(self._jobs.named(region_of(attempt), holder), attempt), *found)
        return min(
            found, key=lambda one: (one.number != holder, one.resource != attempt.handle, one.has_ended)
        )

    def _end(self, record: JobRecord, seen: SeenJob, holder: str) -> Status:
        plain, state = _plain(seen), state_of(seen)
        if state is State.SUCCEEDED and record.wanted is Wanted.RUN:
            if holder in ("", seen.number):  # an image that runs as it is claims nothing
                return plain
            message = f"job {holder} of the same attempt has run, and is not there any more"
            return _failed(attrs.evolve(plain, state=State.FAILED), causes.VANISHED, message)
        documents, note = self._documents(record, seen)
        reported = first_cause(documents) or _stopped(documents)
        if state is State.FAILED:
            return self._failure(seen, plain, reported, note)
        if state is State.EXPIRED:
            cause = causes.TIME_LIMIT if seen.started_at else causes.WAIT_LIMIT
            return _failed(plain, cause, "; ".join(filter(None, (plain.detail, silence(documents)))))
        if state is State.SUCCEEDED:  # cancelled meanwhile: it leaves with 0 whether it was done or not
            if any(one.get(contract.R_STATE) == contract.STATE_DONE for one in documents):
                return plain
            if holder and not documents and not self._is_late(seen):
                return attrs.evolve(plain, state=None, detail="it has ended; its result is not there yet")
            plain = attrs.evolve(plain, state=State.CANCELLED, detail="it has left as it was cancelled")
        return _failed(plain, causes.CANCELLED, plain.detail)

    def _failure(self, seen: SeenJob, plain: Status, reported: Failure | None, note: str) -> Status:
        """Of a job that has failed: as its ranks reported, else as Vertex AI does."""
        if reported is None and not seen.error and not self._is_late(seen):
            detail = "it has failed; Vertex AI reports the reason about a minute later"
            return attrs.evolve(plain, state=None, detail=detail)
        failure = reported or failure_of(seen.error)
        if reported is None and note:
            failure = attrs.evolve(failure, message=f"{failure.message} ({note})")
        return attrs.evolve(plain, cause=causes.of(failure.kind), failure=failure, detail=failure.message)

    def saw_end_of(self, attempt_id: str) -> bool:
        """Whether an attempt was seen to be over, also before its record says so."""
        return any(self._ends.get((attempt_id, wanted)) for wanted in Wanted)

    def _documents(self, record: JobRecord, seen: SeenJob) -> tuple[list[Document], str]:
        """The agents' result documents, and why there are none.

        The code of a failed job may have run though it was never RUNNING: it ended before that was reported.
        """
        if seen.started_at is None and state_of(seen) not in (State.FAILED, State.SUCCEEDED):
            return [], ""
        try:
            nodes = record.training_spec.num_nodes
            reports = self._reports.read_all(record.job_id, record.current.id, nodes)
            documents = [one.agent.result for _, one in sorted(reports.items()) if one.agent.result]
            is_empty = seen.started_at and not reports and logs.are_empty(self._jobs.access, seen.resource)
        except AccessError as error:
            return [], f"its logs could not be read: {error.what}. {error.fix}"
        return documents, NO_LOGS if is_empty else ""

    def _is_late(self, seen: SeenJob) -> bool:
        """Whether what is reported later is overdue, by Google's clock or by ours: either may be wrong."""
        now = self._now()
        since = self._ended_since.get(seen.resource) or self._ended_since.put(seen.resource, now)
        ended = seen.ended_at.timestamp() if seen.ended_at else now
        return max(now - since, now - ended) > REASON_WITHIN_S


class Reasons:
    """Why jobs wait: only the service's own log says it, which is read seldom and for few jobs at a time."""

    def __init__(self, access: GoogleClient) -> None:
        self._access = access
        self._waits: Recent[str, tuple[float, float, str]] = Recent()
        """Of each job: since when it was seen to wait, when its reason was read, and that."""
        self._turns = Pace(each_s=READ_S, now=access.now)

    def explain(self, seen: SeenJob, status: Status) -> Status:
        """The status, with the reason of a job that has waited for a while."""
        if status.state not in (*_WAITS, State.INTERRUPTED):
            self._waits.drop(seen.resource)
            return status
        now = self._access.now()
        since, read_at, reason = self._waits.get(seen.resource) or (now, 0.0, "")
        # By Google's clock or by ours: either may be wrong, and this process may have come late.
        waited_s = now - min(since, seen.created_at.timestamp() if seen.created_at else now)
        again_s = max(READ_AGAIN_S, READ_S * len(self._waits))  # each of those that wait has its turn
        if waited_s >= PATIENCE_S and not 0 <= now - read_at < again_s and self._turns.take("service"):
            with contextlib.suppress(AccessError, TransientError):  # without the right to read logs
                reason = logs.of_service(self._access, seen.resource)
            read_at = now
        self._waits.put(seen.resource, (since, read_at, reason))
        return attrs.evolve(status, detail=f"{status.detail}: {reason}") if reason else status


def _fresh_s(living: Living) -> float:
    pages = -(-sum(map(len, living.values())) // PAGE_SIZE)
    return max(FRESH_S, pages * PAGE_COSTS_S)


def _plain(seen: SeenJob) -> Status:
    """What a job's own fields say."""
    state = state_of(seen)
    if state in _WAITS and seen.started_at is not None:
        state = State.INTERRUPTED  # Vertex AI starts it again by itself
    ran_s = 0.0
    if seen.started_at is not None and seen.ended_at is not None:
        ran_s = max(0.0, (seen.ended_at - seen.started_at).total_seconds())
    return Status(
        state=state,
        exists=True,
        is_whole=not seen.has_ended,
        has_run=seen.started_at is not None,
        handle=seen.resource,
        ran_s=ran_s,
        detail=_detail(seen, state),
        started_at=seen.started_at,
        ended_at=seen.ended_at,
    )


def _detail(seen: SeenJob, state: State | None) -> str:
    if state is State.EXPIRED:
        return "it ran for all of max_run_duration" if seen.started_at else "it waited too long for machines"
    word = seen.state.removeprefix("JOB_STATE_").lower()
    words = f"{word}: {seen.error}" if seen.error else word
    return "; ".join([words, *seen.links]) if state is State.RUNNING else words


def _failed(plain: Status, cause: Cause, message: str) -> Status:
    failure = Failure(kind=cause.kind, message=message)
    return attrs.evolve(plain, cause=cause, failure=failure, detail=message)


def _stopped(documents: Sequence[Document]) -> Failure | None:
    """Ranks that were asked to stop, and saved."""
    if not any(one.get(contract.R_STATE) == contract.STATE_STOPPED for one in documents):
        return None
    message = f"{asked_by(documents)}; the ranks saved and left: submit again to resume"
    return Failure(kind=causes.STOPPED.kind, message=message, exit_code=contract.STOPPED)
