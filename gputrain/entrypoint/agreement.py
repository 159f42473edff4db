"""What all nodes conclude from the results of each, so that every node ends with the same. Pure.

A result says how the ranks of one node ended: `ends`, a time and a cause each, and `is_final` once none of
them runs any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import contract, hang
from .failures import Loss, exit_code_of, first_cause, is_symptom, job_result

Document = dict[str, Any]


UNASKED = (
    "a rank left with exit code 75, which says that it was asked to stop and has saved, and none had "
    "asked; a script that means something else by it needs another code"
)


class Ends:
    """The ends of all ranks so far, apart: those that failed, that left with 0, that did not save."""

    def __init__(self, results: Mapping[int, Document], stop: Document | None) -> None:
        self.failures: list[Loss] = []
        self.left: list[Loss] = []
        self.unsaved: list[Loss] = []
        stopped_at = stop["at"] if stop else float("inf")
        for _, result in sorted(results.items()):
            for end in result["ends"]:
                one = Loss(end["cause"], end["at"])
                if end["at"] >= stopped_at and _is_forgiven(end["cause"]):
                    self.unsaved.append(one)
                elif end["cause"]["kind"] == contract.LEFT_EARLY:
                    self.left.append(one)
                else:
                    self.failures.append(one)


def _is_forgiven(cause: Document) -> bool:
    """After a stop, a rank ended by the signal or by a peer's end has not failed: it has not saved."""
    killed = cause["kind"] == contract.SIGNAL and cause.get("signal") in ("SIGTERM", "SIGKILL", "SIGINT")
    return killed or cause["kind"] == contract.STOP_IGNORED or is_symptom(cause)


def lost_nodes(results: Mapping[int, Document]) -> set[int]:
    """The nodes that some result says are lost."""
    ends = [end["cause"] for result in results.values() for end in result["ends"]]
    return {cause["node_rank"] for cause in ends if cause["kind"] == contract.NODE_LOSS}


def conclusion(
    results: Mapping[int, Document],
    stop: Document | None,
    hang_timeout: float | None,
    name_of: Callable[[int], str],
) -> Document:
    """The job's result."""
    ends, asked = Ends(results, stop), None
    failures = ends.failures
    if stop and stop["reason"] == contract.HANG:
        failures = [one for one in failures if one.happened_at < stop["at"]]
    elif stop:
        asked = {"reason": stop["reason"], "node_rank": stop["node_rank"]}
    cause = first_cause(failures, ends.left) if failures else None
    if cause is None and stop and asked is None:
        cause = _of_hang(results, ends, hang_timeout or 0.0, name_of)
    if cause is not None:
        return job_result(contract.STATE_FAILED, exit_code_of(cause), cause, asked)
    for one in ends.unsaved[:1]:
        return job_result(contract.STATE_STOPPED, exit_code_of(one.cause), one.cause, asked)
    if asked is not None:
        return job_result(contract.STATE_STOPPED, contract.STOPPED, None, asked)
    return job_result(contract.STATE_DONE, contract.DONE, None, None)


def _of_hang(
    results: Mapping[int, Document], ends: Ends, timeout: float, name_of: Callable[[int], str]
) -> Document:
    standings = [
        {**one, "node_rank": rank} for rank, result in results.items() for one in result["standings"] or ()
    ]
    mute = [name_of(rank) for rank, result in results.items() if result["standings"] is None]
    return hang.cause(timeout, standings, [one.cause["rank"] for one in ends.left], mute)
