"""Small words among the ranks of a job: a flag, a few facts, a stop. Nothing here touches a GPU."""

from __future__ import annotations

import contextlib
import signal
import threading
import zlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Type

from gputrain.ddp.errors import DdpError, SessionError

TOLD_RANKS = 8
"""How many ranks of those that do the same are named."""


class Peers:
    """The ranks of this job, reached over a gloo group of their own; a world of one needs no group.

    Args:
        rank: this process, from 0.
        world_size: how many processes there are.
        group: a gloo process group of all ranks, or None in a world of one.

    Every method is collective: all ranks call it, in the same order, and say by `doing` what for. Ranks that
    are apart learn so at once, and who does what; gloo would mix up their words, and abort.

    Raises:
        SessionError: the ranks are not at the same; or one of them is gone, or did not come in time.

    Example:
        >>> Peers().gather("a word", "talking")
        ['a word']
    """

    def __init__(self, rank: int = 0, world_size: int = 1, group: Any = None) -> None:
        self.rank = rank
        self.world_size = world_size
        self.group = group

    def any(self, flag: bool, doing: str) -> bool:
        """True on every rank if any rank says so."""
        if self.world_size == 1:
            return flag
        import torch
        import torch.distributed as dist

        place = zlib.crc32(doing.encode())
        words = torch.tensor([int(flag), place, -place], device="cpu")
        with reaching(self.rank, doing):
            dist.all_reduce(words, op=dist.ReduceOp.MAX, group=self.group)
        is_any, highest, lowest = words.tolist()
        if highest != -lowest:
            self._refuse(doing)
        return bool(is_any)

    def gather(self, word: Any, doing: str) -> list[Any]:
        """The words of all ranks, by rank, on every rank."""
        self.barrier(doing)
        return self._gathered(word, doing)

    def share(self, word: Any, doing: str) -> Any:
        """Rank 0's word, on every rank; what the others pass is ignored."""
        self.barrier(doing)
        if self.world_size == 1:
            return word
        import torch.distributed as dist

        words = [word]
        with reaching(self.rank, doing):
            dist.broadcast_object_list(words, src=0, group=self.group)
        return words[0]

    def barrier(self, doing: str) -> None:
        """Return once every rank is here."""
        self.any(False, doing)

    def together(
        self, action: Callable[[], Any], errors: Tuple[Type[BaseException], ...], doing: str
    ) -> PeerOutcome:
        """Run `action` on every rank and tell all of them how it went on each, errors as text."""
        value, words, cause = None, None, None  # type: Any, Any, Optional[BaseException]
        try:
            value = action()
        except errors as error:
            words = (f"{type(error).__name__}: {error}", "")
            if isinstance(error, DdpError):
                words = (error.what, error.fix)
            cause = error
        told = self.gather((value, words), doing)
        failures = (PeerFailure(rank, *words) for rank, (_, words) in enumerate(told) if words)
        return PeerOutcome([value for value, _ in told], next(failures, None), cause)

    def _gathered(self, word: Any, doing: str) -> list[Any]:
        if self.world_size == 1:
            return [word]
        import torch.distributed as dist

        words: list[Any] = [None] * self.world_size
        with reaching(self.rank, doing):
            dist.all_gather_object(words, word, group=self.group)
        return words

    def _refuse(self, doing: str) -> None:
        """Every rank knows by now that the ranks are apart: who does what?"""
        ranks_at: Dict[str, List[int]] = {}
        for rank, of_rank in enumerate(self._gathered(doing, doing)):
            ranks_at.setdefault(of_rank, []).append(rank)
        raise SessionError(
            "the ranks are apart: " + "; ".join(f"{_named(ranks)} {at}" for at, ranks in ranks_at.items()),
            why="each of these is for all ranks together; going on, they would wait for each other for ever",
            fix="let all ranks call the same, equally often: not below `if s.is_main`, not in loops that "
            "end earlier on some",
        )


@contextlib.contextmanager
def reaching(rank: int, doing: str) -> Iterator[None]:
    """Say what a rank was at when it lost a peer, for which torch raises a RuntimeError of any text."""
    try:
        yield
    except RuntimeError as error:
        raise SessionError(
            f"rank {rank} was {doing}, and another rank is gone or did not come in time",
            why=str(error),
            fix="read what the other ranks wrote: one that failed tells why itself; where one is only slow, "
            "raise session(timeout_s=...)",
        ) from error


def _named(ranks: List[int]) -> str:
    """
    >>> _named([0]), _named([1, 2])
    ('rank 0 is', 'ranks 1, 2 are')
    """
    told = ", ".join(map(str, ranks[:TOLD_RANKS])) + ", ..." * (len(ranks) > TOLD_RANKS)
    return f"rank {told} is" if len(ranks) == 1 else f"ranks {told} are"


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

    SIGTERM reaches the ranks in different steps. Its handler only sets a flag, so that a save can finish.

    Args:
        peers: the ranks that have to agree.
        every: agree at every n-th step only; in between the answer is False, without a word among the ranks.
    """

    def __init__(self, peers: Peers, every: int = 1) -> None:
        self._peers = peers
        self._every = every
        self._questions = 0
        self._previous: Optional[Any] = None
        self.asked = False
        self.agreed = False

    def listen(self) -> None:
        """Take SIGTERM over; outside the main thread Python allows no handlers."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._note)

    def unlisten(self) -> None:
        """Give SIGTERM back to whoever had it."""
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)
            self._previous = None

    def should_stop(self, step: Optional[int] = None) -> bool:
        """True on every rank once any was asked to stop. Collective; without a step, questions count."""
        self._questions += 1
        count = self._questions if step is None else step
        if not self.agreed and count % self._every == 0:
            self.agreed = self._peers.any(self.asked, "asking whether to stop")
        return self.agreed

    def _note(self, _signal: int, _frame: Any) -> None:
        self.asked = True
