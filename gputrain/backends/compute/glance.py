"""Many jobs looked at with few calls: what cannot have changed is not asked for, and the rest by turns."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gputrain.backends.compute.look import PREPARING, Looks
from gputrain.gcp.shared import Kept, Pace
from gputrain.lifecycle import Observation, State
from gputrain.records import Record

CALL_S = 1.0
"""One job's own look in each second, however many are watched: for the words of guests that boot, for VMs
that go down, for records of jobs that wait for room. With the lists of VMs it is 60 of 150 calls a minute."""

FEW = 4
"""Up to so many such jobs are looked at whenever somebody asks."""

ENDED = 500
"""Ends that are kept, each with its record of 14 KB: one that is forgotten is read again."""

MOST = 10_000
"""Jobs that one process watches."""


@attrs.frozen
class _Last:
    """What was seen of a job, by which record, and the statuses that the zone's list gave its VMs."""

    record: Record
    seen: Observation
    statuses: tuple[str, ...]


class Glances:
    """What was seen of each job."""

    def __init__(self, looks: Looks, now: Callable[[], float]) -> None:
        self._looks = looks
        self._last: Kept[str, _Last] = Kept(most=MOST)
        self._ended: Kept[str, _Last] = Kept(most=ENDED)
        self._turns = Pace(each_s=CALL_S, few=FEW, now=now)

    def look(self, job_id: str, read: Callable[[], Record]) -> tuple[Record, Observation]:
        """The job as it is now, or as it was seen last where it is the turn of others; and by which record.

        A change of its VMs is seen at once.

        Args:
            read: reads its record.
        """
        known = self._undisturbed(job_id)
        if known is not None:
            return known.record, known.seen
        record = read()
        statuses, seen = self._looks.statuses(record), self._looks.observe(record)
        last = _Last(record, seen, statuses)
        self._turns.note(job_id)
        self.forget(job_id)
        if seen.state is not None and not seen.state.is_terminal:
            self._last.put(job_id, last)
        elif seen.state is not None and seen.raw.get("nodes"):  # else it ended by a word, or by its age
            self._ended.put(job_id, last)
        return record, seen

    def forget(self, job_id: str) -> None:
        """Look anew: something was done about the job."""
        self._last.drop(job_id)

    def _undisturbed(self, job_id: str) -> _Last | None:
        ended, last = self._ended.get(job_id), self._last.get(job_id)
        if ended is not None or last is None:
            return ended
        record, seen = last.record, last.seen
        if self._looks.statuses(record) != last.statuses:
            return None
        statuses = set(last.statuses)
        is_whole = bool(statuses) and not record.over
        if is_whole and (seen.state is State.RUNNING or statuses <= PREPARING):
            return last
        if not self._turns.take(job_id):
            return last
        if not is_whole or seen.state is not State.PROVISIONING or statuses != {"RUNNING"}:
            return None
        return self._last.put(job_id, attrs.evolve(last, seen=self._looks.booted(record, seen)))
