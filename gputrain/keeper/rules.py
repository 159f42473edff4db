"""When a job's processes are asked to stop, and when they are killed. Pure: no clock, no process, no board.

Both keepers go by it: the supervisor of a job on this machine, and the one on a VM.
"""

from __future__ import annotations

from .status import SUPERSEDED

NOTHING, ASK, KILL = "", "ask", "kill"

TICK_S = 0.2
"""How often a keeper looks at its rules; the end of a process wakes it at once where that can be."""

AGAIN_S = 1.0
"""How soon what does not die of SIGKILL gets another one."""

_NEVER = float("inf")


class Rules:
    """The limits of one attempt.

    Args:
        deadline: when its time is over, on the clock that `at` is asked with.
        over: the word for that.
        patience_s: how long those who were asked may take; then they are killed.
    """

    def __init__(self, deadline: float, over: str, patience_s: float) -> None:
        self.stop = ""
        """Why the job was asked to stop; empty while it was not, and where it only had to leave."""
        self._deadline = deadline
        self._over = over
        self._patience_s = patience_s
        self._kill_at = _NEVER

    def at(self, now: float, word: str = "", leave_by: float = _NEVER) -> str:
        """What to do now.

        Args:
            word: why somebody wants the job to stop; empty: nobody does. `SUPERSEDED` gives nobody time.
            leave_by: when the rest has to go, since some have gone; no word of failure or wish.
        """
        if word == SUPERSEDED and self.stop != SUPERSEDED:
            self.stop, self._kill_at = SUPERSEDED, now
        if not self.stop:
            self.stop = word or (self._over if now >= self._deadline else "")
        if self._kill_at == _NEVER:
            if self.stop or now >= leave_by:
                self._kill_at = now + self._patience_s
                return ASK
        elif now >= self._kill_at:
            self._kill_at = now + AGAIN_S
            return KILL
        return NOTHING

    def pause_s(self, now: float, tick_s: float) -> float:
        """How long nothing is due, a tick at most."""
        soonest = min(_NEVER if self.stop else self._deadline, self._kill_at)
        return max(0.0, min(tick_s, soonest - now))
