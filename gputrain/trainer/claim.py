"""The record of one job in this process's hands: whoever wrote it last may ask for machines."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from datetime import datetime

import attrs

from gputrain.errors import GputrainError, RequestError
from gputrain.records import WITHDRAWN, Ask, Board, OvertakenError, Record, ended, surely
from gputrain.times import Since
from gputrain.trainer.boards import Boards
from gputrain.trainer.undo import given_up, unseen

log = logging.getLogger("gputrain")

TURN_S = 180.0
"""How old an ask must be before another process takes over that cannot repeat it: longer than any call that
makes machines may take, its repetitions included."""

STILL_S = 1.0
"""How long after a read what was read is taken for what is written."""

SURE_S = 15.0
"""How long after its own write a process need not look whether it is still its turn."""


class Claim:
    """Reads and writes one job's record where it decides, and copies it where it is looked for.

    The board of the backend ``near`` is read first, and is home to a record that nobody has written yet.
    """

    def __init__(
        self, boards: Boards, job_id: str, now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic, near: str = "",
    ) -> None:  # fmt: skip
        self._boards, self._near = boards, near
        self._home = boards.all(near)[0]
        self._job_id, self._now, self._monotonic = job_id, now, monotonic
        self._wrote_at: tuple[datetime, float] | None = None
        self.met: tuple[int, float] | None = None
        """Which generation of the record was met first when, by a clock of our own."""
        self._known_at: datetime | None = None
        self._known_since: Since | None = None
        self.record: Record | None = None
        self._writes: Record | None = None
        """What is being written: struck as it is, it may be there, and nobody was told."""

    @property
    def home(self) -> str:
        """The board that decides, by its name."""
        return self._home.name

    def read(self) -> Record | None:
        """The record as it is now; None where no board has one.

        Raises:
            RecordError: what is there is none.
            RequestError: it is kept where no backend here can write.
        """
        self.record = None
        for board in self._boards.all(self._near):
            found = self._home.read(self._job_id) if board.name == self.home else self._there(board)
            if found is not None and found.home != board.name:
                found = self._boards.at_home(found)
            if found is not None:
                self._home = self._boards.named(found.home) or board
                self.record = self._aged(found)
                return self.record
        return None

    def is_still(self, record: Record) -> bool:
        """Whether what was read is what is written: a long look may see what was withdrawn since."""
        if self._known_since is None or self._known_since.seconds < STILL_S:
            return True
        there = self._home.read(self._job_id)
        return there is not None and there.generation == record.generation

    def is_younger(self, record: Record, seconds: float) -> bool:
        """Whether a record that was read or written here is not so old yet, by this process's date."""
        if self._known_at is None:
            return False
        since_s = (self._now() - self._known_at).total_seconds()
        return 0 <= since_s < seconds - record.age_s  # a date that was set back says nothing

    def _aged(self, record: Record) -> Record:
        """The record, as old as it certainly is: a service whose clock stands keeps nobody waiting."""
        now, self._known_at = self._monotonic(), self._now()
        self._known_since = Since(lambda: self._now().timestamp(), self._monotonic)
        if self.met is None or self.met[0] != record.generation:
            self.met = record.generation, now
        return attrs.evolve(record, age_s=max(record.age_s, now - self.met[1]))

    def ask(self, record: Record, ask: Ask) -> None:
        """Write down that machines are about to be asked for.

        Raises:
            OvertakenError: it is somebody else's turn.
            RequestError: another job has its key, where this one would be looked for.
        """
        if self.write(record.asked(ask)) or self.record is None:
            return
        if record.asks:
            raise RequestError(
                f"where {ask.way.backend} keeps its records is another job of that key, {self._job_id}",
                fix="submit this one under another key",
                try_elsewhere=True,
            )
        self._home.remove(self.record)  # nothing was asked for: the others may have been, so they are first
        raise self.overtaken()

    def keep(self) -> None:
        """Say that this process is still at it. Raises as `ask`."""
        if self.record is not None:
            self.write(self.record)

    def write(self, record: Record) -> bool:
        """Write the record as it should be now; whether no board keeps another job of its key.

        Raises:
            OvertakenError: it is somebody else's turn.
        """
        self._writes = attrs.evolve(record, home=self._home.name)
        try:
            self.record = self._home.write(self._writes)
        except OvertakenError:  # so it is not there
            self._writes = None
            raise
        self._writes = None
        self._known_at = self._now()
        self._wrote_at = self._known_at, self._monotonic()
        return self._copy()

    def _copy(self) -> bool:
        """Tell it where a reader with the job's name would look; False where that is another job's place."""
        record = self.record
        return record is None or min(
            (self._is_copied(record, one) for one in self._copies(record)), default=True
        )

    def _is_copied(self, record: Record, board: Board) -> bool:
        for _ in range(2):
            there = board.read(self._job_id)
            if there is not None and self._boards.is_anothers(there, record):  # and stays as it is
                return False
            with contextlib.suppress(OvertakenError):  # whoever was quicker has copied it as well
                board.write(attrs.evolve(record, generation=there.generation if there else 0))
                return True
        return True

    def answer(self, answer: str, scope: str = "", said: str = "") -> None:
        """Keep in mind what was answered; it is written with what follows."""
        record = self.record
        if record is not None and (record.is_open or (record.asks and record.latest.answer == WITHDRAWN)):
            self.record = record.answered(answer, scope, said)

    def share(self) -> None:
        """Say that somebody is told of the job, so that its asker takes nothing back. Raises as `ask`."""
        if self.record is not None and not self.record.latest.is_shared:
            self.write(self.record.shared())

    def withdraw(self, *, goes_on: bool) -> None:
        """Write down that what was asked for last is taken back; a job that was placed before waits for room.

        Raises as `ask`; a board that refuses it keeps nothing from being ended.
        """
        try:
            if (record := self.record) is not None:
                self.write(record.answered(WITHDRAWN) if goes_on else attrs.evolve(record, over=WITHDRAWN))
        except OvertakenError:
            raise
        except GputrainError as error:
            log.info("%s is not noted as withdrawn: %s", self._job_id, error.what)
            if self._is_anothers():
                raise self.overtaken() from error

    def _is_anothers(self) -> bool:
        """Whether our ask is none of ours any more, as far as its board can be read."""
        try:
            there = self._there()
        except GputrainError:
            return False
        ours = self._ours(there)
        is_lost = ours is None or self.record is None or ours.latest.is_shared > self.record.latest.is_shared
        return is_lost and not self._is_written(there)

    def _is_written(self, there: Record | None) -> bool:
        """Whether it is what was being written here when no answer came."""
        return there is not None and self._writes is not None and there.history == self._writes.history

    def confirm(self, *, is_shared: bool, is_listed: bool) -> None:
        """See that what was made is the job, and that whoever reads of it finds it.

        Args:
            is_shared: another process's ask was repeated. It is written down, lest that process takes back
                what somebody was told of: what it is answered is no answer for the job any more.
            is_listed: the job is found in lists, which lag: its record is to be as young as it is.

        Raises:
            OvertakenError: the ask does not stand any more: another was asked, or the job was ended.
        """
        if self.record is None or self.record.last is None:
            return
        there: Record | None = self.record
        is_young = self.has_just_written() and not is_shared
        writes = not is_young and (is_listed or is_shared > self.record.latest.is_shared)
        with contextlib.suppress(*(GputrainError,) * is_young):  # a cancel may have come, and nobody else
            there = self.record if writes else self._ours(self._there())
        while there is not None:
            if not writes or (is_shared and there.latest.is_shared):
                return
            try:
                self.write(there.shared() if is_shared else there)
            except OvertakenError:  # perhaps by who shares it
                there = self._ours(self._there())
            else:
                return
        raise self.overtaken()

    def overtaken(self) -> OvertakenError:
        """That another process has gone on with the job."""
        return OvertakenError(f"another process has gone on with {self._job_id}")

    def overtaken_by(self, ask: Ask) -> OvertakenError:
        """That an earlier ask has come to a job after all, which is the job from now on. Raises as `ask`."""
        if self.record is not None:
            self.write(self.record.come(ask))
        return self.overtaken()

    def give_up(self) -> bool:
        """Have nothing train that comes late of what was taken back; whether the latest ask came before.

        Raises:
            OvertakenError: an earlier one did, which is the job.
        """
        record = self.record
        come = None if record is None else given_up(self._boards, self._home, record)
        if record is not None and come is not None and come.nonce != record.latest.nonce:
            self.record = record.late()
            raise self.overtaken_by(come)
        return come is not None

    def _there(self, board: Board | None = None) -> Record | None:
        """What lies on a board, on the one that decides unless said."""
        return surely(lambda: (board or self._home).read(self._job_id))

    def _ours(self, there: Record | None) -> Record | None:
        if there is None or there.over or not there.is_open or self.record is None:
            return None
        return there if there.latest.nonce == self.record.latest.nonce else None

    def has_just_written(self) -> bool:
        """Whether what was written here is so young that nobody else can have gone on from it."""
        if self._wrote_at is None:
            return False
        # A clock that is set back, or one that stands while a machine sleeps: the longer time counts.
        by_date = (self._now() - self._wrote_at[0]).total_seconds()
        return max(abs(by_date), self._monotonic() - self._wrote_at[1]) < SURE_S

    def end(self, why: str) -> GputrainError | None:
        """Write down that nobody starts the job again; what refused it, which keeps nothing from ending."""
        try:
            if self.read() is not None:
                self.record = ended(self._home, self._job_id, why)
                self._copy()
        except GputrainError as error:
            return error
        return None

    def drop(self) -> None:
        """Remove the record of a job that never was; OvertakenError where one has come, which is the job."""
        record = self.record
        if self._writes is not None and self._is_written(there := self._home.read(self._job_id)):
            record = there  # of which nobody was told whether it came
        if record is None or not record.generation:
            return
        if unseen(self._boards, record):
            self.write(attrs.evolve(record, over=WITHDRAWN))
            if self.give_up():
                raise self.overtaken_by(record.latest)
            return
        for board in self._copies(record):
            there = board.read(self._job_id)
            if there is not None and not self._boards.is_anothers(there, record):
                board.remove(there)
        self._home.remove(record)
        self.record = None

    def _copies(self, record: Record) -> tuple[Board, ...]:
        """The other boards on which somebody may look for the job: those of the backends that were asked."""
        asked = (self._boards.of(one.way.backend) for one in record.asks)
        found = {board.name: board for board in asked if board is not None and board.name != self._home.name}
        return tuple(found.values())
