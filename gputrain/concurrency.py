"""Calls side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def gather(call: Callable[[K], T], items: Iterable[K], at_once: int = 8) -> list[T]:
    """What a function returns for each item, in their order.

    A Ctrl-C is raised at once: calls that have begun end by themselves, and no other begins.

    >>> gather(str.upper, "ab")
    ['A', 'B']
    """
    listed = list(items)
    if len(listed) < 2:
        return [call(one) for one in listed]
    pool = ThreadPoolExecutor(min(at_once, len(listed)), "gputrain")
    try:
        return list(pool.map(call, listed))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
