"""Small words among the ranks of a job: a flag, a few facts, a stop. Nothing here touches a GPU."""

from __future__ import annotations

import signal
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Tuple, Type

from gputrain.ddp.errors import DdpError


class Peers:
    """The ranks of this job, reached over a gloo group of their own; a world of one needs no group.

    Args:
        rank: this process, from 0.
        world_size: how many processes there are.
        group: a gloo process group of all ranks, or None in a world of one.

    Every method is collective: all ranks call it, in the same order.

    Example:
        >>> Peers().gather("a word")
        ['a word']
    """

    def __init__(self, rank: int = 0, world_size: int = 1, group: Any = None) -> None:
        self.rank = rank
        self.world_size = world_size
        self.group = group
        self._flag: Any = None

    def any(self, flag: bool) -> bool:
        """True on every rank if any rank says so."""
        if self.world_size == 1:
            return flag
        import torch
        import torch.distributed as dist

        if self._flag is None:
            self._flag = torch.zeros(1, dtype=torch.int32)
        self._flag[0] = int(flag)
        dist.all_reduce(self._flag, op=dist.ReduceOp.MAX, group=self.group)
        return bool(self._flag[0])

    def gather(self, word: Any) -> list[Any]:
        """The words of all ranks, by rank, on every rank."""
        if self.world_size == 1:
            return [word]
        import torch.distributed as dist

        words: list[Any] = [None] * self.world_size
        dist.all_gather_object(words, word, group=self.group)
        return words

    def share(self, word: Any) -> Any:
        """Rank 0's word, on every rank; what the others pass is ignored."""
        if self.world_size == 1:
            return word
        import torch.distributed as dist

        words = [word]
        dist.broadcast_object_list(words, src=0, group=self.group)
        return words[0]

    def barrier(self) -> None:
        """Return once every rank is here."""
        self.any(False)

    def together(self, action: Callable[[], Any], errors: Tuple[Type[BaseException], ...]) -> PeerOutcome:
        """Run `action` on every rank and tell all of them how it went on each, errors as text."""
        value, words, cause = None, None, None  # type: Any, Any, Optional[BaseException]
        try:
            value = action()
        except errors as error:
            words = (f"{type(error).__name__}: {error}", "")
            if isinstance(error, DdpError):
                words = (error.what, error.fix)
            cause = error
        told = self.gather((value, words))
        failures = (PeerFailure(rank, *words) for rank, (_, words) in enumerate(told) if words)
        return PeerOutcome([value for value, _ in told], next(failures, None), cause)


class PeerFailure(NamedTuple):
    """What went wrong on a rank, in words, and the fix where one is known."""

    rank: int
    why: str
    fix: str


class PeerOutcome(NamedTuple):
    """How one action went: values by rank, the lowest failing rank's failure, this rank's own exception."""

    values: List[Any]
    failure: Optional[PeerFailure]
    cause: Optional[BaseException]


class Stop:
    """Whether the job is asked to stop, agreed by all ranks so that all of them save the same step.

    SIGTERM reaches the ranks at different moments of different steps.
    The handler does nothing but set a flag, so a signal inside a save lets the save finish.

    Args:
        peers: the ranks that have to agree.
        every: agree at every n-th step only; the answers in between are False without a word among the ranks.
    """

    def __init__(self, peers: Peers, every: int = 1) -> None:
        self._peers = peers
        self._every = every
        self._questions = 0
        self._previous: Optional[Any] = None
        self.asked = False
        self.agreed = False

    def listen(self) -> None:
        """Take SIGTERM over; outside the main thread Python allows no handlers, and nothing changes."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._note)

    def unlisten(self) -> None:
        """Give SIGTERM back to whoever had it."""
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)
            self._previous = None

    def should_stop(self, step: Optional[int] = None) -> bool:
        """True on every rank once any rank was asked to stop. Collective: every rank asks equally often.

        Args:
            step: the step that is done; None counts the questions instead.
        """
        self._questions += 1
        count = self._questions if step is None else step
        if not self.agreed and count % self._every == 0:
            self.agreed = self._peers.any(self.asked)
        return self.agreed

    def _note(self, _signal: int, _frame: Any) -> None:
        self.asked = True
