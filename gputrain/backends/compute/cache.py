"""Many jobs looked at with few calls: what cannot have changed is not asked for, and the rest by turns."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gputrain.backends.compute.causes import VmReport
from gputrain.backends.compute.look import PREPARING, Looks
from gputrain.gcp.pace import Pace
from gputrain.gcp.shared import Kept
from gputrain.lifecycle import Observation, State
from gputrain.records import Record
from gputrain.times import Since

CALL_S = 1.0
"""One job's own look in each second, however many are watched: for the words of guests that boot, for VMs
that go down, for records of jobs that wait for room. With the lists of VMs it is 60 of 150 calls a minute."""

FEW = 4
"""Up to so many such jobs are looked at whenever somebody asks."""

ENDED = 200
"""Ends that are kept, some 20 KB each with the record and all that was seen: one that is forgotten is read
again. With 500 a process was 12 % larger after 2,000 jobs than after 100, with 200 it is 9 %."""

MOST = 10_000
"""Jobs that one process watches."""


_COMING = frozenset({*PREPARING, "RUNNING"})


@attrs.define(eq=False)
class _Last:
    """What was seen of a job, by which record, and what the zone's list told of its VMs."""

    record: Record
    seen: Observation
    listed: tuple[VmReport, ...]
    read: Since
    """When the record was: what guests say is held against the time that it is by the board's clock."""

    @property
    def aged(self) -> Record:
        """The record as if it were read now."""
        return attrs.evolve(self.record, age_s=self.record.age_s + self.read.seconds)


class Glances:
    """What was seen of each job."""

    def __init__(self, looks: Looks, now: Callable[[], float]) -> None:
        self._looks = looks
        self._now = now
        self._last: Kept[str, _Last] = Kept(most=MOST)
        self._ended: Kept[str, _Last] = Kept(most=ENDED)
        self._turns = Pace(each_s=CALL_S, few=FEW, now=now)

    def look(
        self, job_id: str, read: Callable[[], Record], glimpse: Callable[[], Record | None]
    ) -> tuple[Record, Observation]:
        """The job as it is now, or as it was seen last where it is the turn of others; and by which record.

        A change of its VMs is seen at once.

        Args:
            read: reads its record.
            glimpse: the same as a list that many share tells it, as far as a living job is told by it.
        """
        known = self._undisturbed(job_id) or self._from_lists(job_id, glimpse)
        if known is not None:
            return known.record, known.seen
        record = read()
        listed, seen = self._looks.listed(record), self._looks.observe(record)
        last = self._seen(record, seen, listed)
        self._turns.note(job_id)
        self.forget(job_id)
        if seen.state is not None and not seen.state.is_terminal:
            self._last.put(job_id, last)
        elif seen.state is not None and seen.started_at:  # else somebody may have asked for it anew
            self._ended.put(job_id, last)
        return record, seen

    def forget(self, job_id: str) -> None:
        """Look anew: something was done about the job."""
        self._last.drop(job_id)
        self._ended.drop(job_id)

    def _undisturbed(self, job_id: str) -> _Last | None:
        ended, last = self._ended.get(job_id), self._last.get(job_id)
        if ended is not None or last is None:
            return ended
        record, seen = last.record, last.seen
        now = self._looks.listed(record)
        if now != last.listed:
            return self._come_nearer(job_id, last, now)
        statuses = _statuses(now)
        is_whole = bool(statuses) and not record.over
        if is_whole and (seen.state is State.RUNNING or statuses <= PREPARING):
            return last
        if not self._turns.take(job_id):
            return last
        if not is_whole or seen.state is not State.PROVISIONING or statuses != {"RUNNING"}:
            return None
        return self._last.put(job_id, attrs.evolve(last, seen=self._looks.booted(last.aged, seen)))

    def _from_lists(self, job_id: str, glimpse: Callable[[], Record | None]) -> _Last | None:
        """A first look at one of many whose VMs all live; None where it is its turn, or lists do not say."""
        if self._last.get(job_id) is not None or self._turns.take(job_id):
            return None
        record = glimpse()
        if record is None:
            return None
        listed, seen = self._looks.listed(record), self._looks.living(record)
        if seen is None:
            return None
        return self._last.put(job_id, self._seen(record, seen, listed))

    def _come_nearer(self, job_id: str, last: _Last, listed: tuple[VmReport, ...]) -> _Last | None:
        """One of many whose VMs all are on their way up: only its guests could say more, and by turns."""
        is_coming = last.seen.state in (State.QUEUED, State.PROVISIONING) and not last.record.over
        if not is_coming or not _statuses(last.listed) | _statuses(listed) <= _COMING:
            return None
        if self._turns.take(job_id):
            return None
        seen = self._looks.changed(last.aged, last.seen, listed)
        return self._last.put(job_id, attrs.evolve(last, seen=seen, listed=listed))

    def _seen(self, record: Record, seen: Observation, listed: tuple[VmReport, ...]) -> _Last:
        return _Last(record, seen, listed, Since(self._now))


def _statuses(listed: tuple[VmReport, ...]) -> set[str]:
    return {node.status for node in listed}
