"""Whether the ranks are silent, and why they are: who waits in which collective, who never came to it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Any

from . import contract
from .logs import LogForwarder

Standing = dict[str, Any]

UNKNOWN = "no rank could be asked where it stands: none is run by Python, or all are stuck in the kernel"

_ENDED = {
    "local_rank": None, "node_rank": None, "collective": "", "place": "", "trace": "",
    "absent": "had ended with 0 before",
}  # fmt: skip
_IMPORTS = "<frozen importlib._bootstrap>"


def story(
    standings: Sequence[Standing], left: Sequence[int] = (), mute: Sequence[str] = ()
) -> tuple[Any, str]:
    """Which rank holds up the others, as far as that is known, and the sentence."""
    known = {one["rank"] for one in standings}
    ended = [{**_ENDED, "rank": rank} for rank in left if rank not in known]
    guilty, sentence = _of_places([*standings, *ended], left, bool(mute)) if standings else (None, UNKNOWN)
    for group in sorted({group for one in standings for group in one.get("recorded", ())}):
        behind, counts = _behind(group, [one for one in standings if group in one.get("recorded", ())])
        if behind:
            # Counts are surer than places, as a rank runs ahead of what its GPU waits for; a rank that could
            # not be asked has most often none.
            is_known = guilty is None or group in guilty.get("recorded", ())
            guilty = guilty if not is_known or any(one is guilty for one in behind) else behind[0]
            sentence += counts
    return guilty, sentence + "".join(f"; {name} did not tell in time where its ranks stand" for name in mute)


def _behind(group: str, standings: Sequence[Standing]) -> tuple[list[Standing], str]:
    """The ranks that have begun fewer collectives of a group than others have, and the sentence of it."""
    begun = {id(one): one["recorded"][group]["begun"] for one in standings}
    least, most = min(begun.values()), max(begun.values())
    if least == most:
        return [], ""
    behind = [one for one in standings if begun[id(one)] == least]
    ahead = [one for one in standings if begun[id(one)] == most]
    name = ahead[0]["recorded"][group]["name"]
    last = f", the last of them {name}" if name else ""
    counts = f"{_ranks(behind)} began {least} and {_ranks(ahead)} began {most} collectives{last}"
    return behind, f"; of group {group}, {counts}"


def _of_places(standings: Sequence[Standing], left: Sequence[int], is_part: bool) -> tuple[Any, str]:
    asked = [one for one in standings if not one.get("absent")]
    absent = [one for one in standings if one.get("absent")]
    waiting = _groups([one for one in asked if one["collective"]])
    elsewhere = _groups([one for one in asked if not one["collective"]])
    gone = "".join(f"; {_ranks(group)} {group[0]['absent']}" for group in _groups(absent))
    # Who has ended holds up none but those that wait for others.
    suspects = [one for one in absent if one["rank"] not in left] or (absent if waiting else [])
    if not asked:
        return suspects[0] if len(suspects) == 1 else None, gone[2:]
    if waiting and elsewhere:
        waits = _apart(waiting)
        others = "; ".join(f"{_ranks(group)} never came to it: {_where(group[0])}" for group in elsewhere)
        return elsewhere[0][0], f"waiting: {waits}; {others}{gone}"
    groups = waiting or elsewhere
    if len(groups) > 1:
        # The few are more likely wrong than the many.
        fewest = min(groups, key=len)
        return (suspects or fewest)[0], f"the ranks are at different places: {_apart(groups)}{gone}"
    end = ""
    if waiting and len(asked) > 1 and not (absent or is_part):
        end = "; all came, so what they send does not arrive: look at the network"
    elif elsewhere and all(_IMPORTS in one["trace"] for one in asked):
        end = "; still importing: hang_timeout is shorter than the start of this script takes here"
    return (suspects or groups[0])[0], f"{_apart(groups)}{end}{gone}"


def _apart(groups: Sequence[Sequence[Standing]]) -> str:
    return "; ".join(f"{_ranks(group)} in {_where(group[0])}" for group in groups)


def _groups(standings: Sequence[Standing]) -> list[list[Standing]]:
    """Ranks at one place together, the lowest first."""
    groups: dict[tuple[str, ...], list[Standing]] = {}
    for one in sorted(standings, key=lambda standing: standing["rank"]):
        where = one["collective"], one["place"], one.get("absent", "")
        groups.setdefault(where, []).append(one)
    return list(groups.values())


def _where(standing: Standing) -> str:
    if standing["collective"]:
        return f"{standing['collective']}, from {standing['place']}"
    return str(standing["place"] or "code that is not Python's")


def _ranks(group: Sequence[Standing]) -> str:
    """
    >>> _ranks([{"rank": 0}, {"rank": 1}, {"rank": 2}, {"rank": 5}])
    'ranks 0 to 2, 5'
    """
    runs: list[list[int]] = []
    for rank in (one["rank"] for one in group):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("rank " if len(group) == 1 else "ranks ") + ", ".join(texts)


_LOOKS = 40
"""How many there are in a timeout: a hang is found so much later at most."""

_LOOK_EVERY_S = 15.0
"""The same without a timeout, so that an end can tell how long the ranks had been silent."""


class Silence:
    """How long the node has been silent in a run, and whether that is too long. Without a timeout, never.

    A machine's time may be set while the job runs, or be another's where the folder is: of the ranks' beat it
    matters when it changed, by the steady clock, and not what it says.
    """

    def __init__(self, timeout: float | None, logs: LogForwarder) -> None:
        self._timeout = float("inf") if timeout is None else timeout
        self._every_s = _LOOK_EVERY_S if timeout is None else timeout / _LOOKS
        self._logs = logs
        self.is_quiet = False
        self._beat = self._beat_at = 0.0
        self._logs.heard_at = time.monotonic()
        self._look_at = self._logs.heard_at + self._every_s

    def has_changed(self, folder: str) -> bool:
        """Look whether the node has become quiet, or has spoken again."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        silent_s = self.seconds(folder)
        was_quiet, self.is_quiet = self.is_quiet, silent_s >= self._timeout
        # Once quiet, the next word is waited for: other nodes may speak, and this one after them.
        left_s = self._every_s if self.is_quiet else self._timeout - silent_s
        self._look_at = now + min(self._every_s, left_s)
        return was_quiet is not self.is_quiet

    def seconds(self, folder: str) -> float:
        """For how long no rank has said, reported or stepped anything."""
        now = time.monotonic()
        with contextlib.suppress(OSError):
            beat = os.stat(os.path.join(folder, contract.BEAT_FILE)).st_mtime
            if beat != self._beat:
                self._beat, self._beat_at = beat, now
        return max(0.0, now - max(self._logs.heard_at, self._beat_at))
