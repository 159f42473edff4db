"""Small words among the ranks of a job: a flag, a few facts, a barrier. Nothing here touches a GPU."""

from __future__ import annotations

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
