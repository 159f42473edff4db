"""Whether ranks are silent, where each stands, and who holds up the others.

A rank is asked by a file, and answers by one (see `rank`). A client on this machine asks a node by a file in
the result folder, and so does what reads the job's bucket.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import contract, host

if TYPE_CHECKING:  # a client, which only reads stacks, may be no Unix
    from .launcher import Workers
    from .logs import LogForwarder
    from .options import Options

Standing = dict[str, Any]

ASKED_S = 3.0
"""How long ranks have to answer; they look every 0.2 s."""

EVERY_S = 0.5
"""How often the agent looks whether somebody asks; a look is one system call."""

UNANSWERED = (
    f"could not be asked: no answer within {ASKED_S:g} s, as where native code keeps the interpreter's lock"
    " or another program took the process over"
)
UNOFFERED = "could not be asked: not run by Python, or not yet"
_STATES = {
    "T": "could not be asked: stopped by a signal, as by SIGSTOP",
    "t": "could not be asked: held by a debugger",
    "D": "could not be asked: stuck in the kernel, as in a driver or a file system",
}

TRACE_LIMIT = 6000
"""Characters of a stack that travel to node 0."""

_NAME = re.compile(contract.RANK_STACK_FILE.format(r"(\d+)", r"(\d+)", r"(\d+)"))
_TORCH = re.compile(r"[/\\]torch[/\\]")
_COLLECTIVES = re.compile(r"[/\\]torch[/\\](distributed|autograd|nn[/\\]parallel)[/\\]")
_WRAPPERS = ("wrapper", "_engine_run_backward", "_fn", "inner", "decorate_context")
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3[^/]*[/\\]|^<frozen")


def of_node(workers: Workers, options: Options) -> list[Standing]:
    """Where the ranks of this node stand, or why they cannot say."""
    found = {one["rank"]: one for one in take(workers.folder)}
    for rank in workers.ranks if options.starts_ranks else ():  # else none is a rank's process
        code = rank.exit_code
        why = UNOFFERED if code is None else f"had ended with {code} before"
        found.setdefault(rank.rank, standing(rank.rank, rank.local_rank, {}, why))
    return [{**one, "trace": as_sent(one["trace"], options)} for _, one in sorted(found.items())]


def take(folder: str) -> list[Standing]:
    """Ask all ranks whose files are here; by rank: where it stands, or why it does not say."""
    asked, until = os.urandom(8).hex(), time.monotonic() + ASKED_S
    try:
        found = [match for match in map(_NAME.fullmatch, os.listdir(folder) if folder else ()) if match]
        host.put(os.path.join(folder, contract.STACKS_ASK), asked)
    except OSError:  # a script may have removed the folder
        return []
    taken = []
    for match in sorted(found, key=lambda one: int(one[1])):
        rank, local_rank, pid = map(int, match.groups())
        path = os.path.join(folder, match[0])
        while "recorded" not in (answer := _answer(path, asked)) and _runs(pid) and time.monotonic() < until:
            time.sleep(0.02)
        if answer or _runs(pid):
            why = "" if answer else _STATES.get(host.state_of(pid), UNANSWERED)
            taken.append(standing(rank, local_rank, answer, why))
    return taken


def _answer(path: str, asked: str) -> dict[str, Any]:
    found = host.read_json(path) or {}
    return found if found.get("asked") == asked else {}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return host.state_of(pid) not in ("Z", "X")


def standing(rank: int, local_rank: int, answer: dict[str, Any], absent: str = "") -> Standing:
    """Where a rank stands: the collective it waits in, the line of its own code, its main thread's stack; or
    why it is `absent`.

    >>> standing(2, 2, {"frames": [("/w/train.py", 8, "evaluate")]})["place"]
    'evaluate at train.py:8'
    """
    frames = [(path, line, name) for path, line, name in answer.get("frames", ()) if not _is_start(path)]
    trace = "\n".join(f'  File "{path}", line {line} in {name}' for path, line, name in frames)
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])] or frames
    return {
        "rank": rank,
        "local_rank": local_rank,
        "collective": _collective(frames),
        "place": "{2} at {0}:{1}".format(os.path.basename(own[0][0]), *own[0][1:]) if own else "",
        "trace": trace[:TRACE_LIMIT],
        "absent": absent,
        "recorded": answer.get("recorded", {}),
    }


def _collective(frames: list[tuple[str, int, str]]) -> str:
    """The call of torch's in which a rank waits for others; empty where it is in code of its own."""
    inside = itertools.takewhile(lambda frame: _TORCH.search(frame[0]), frames)
    names = (name for path, _, name in inside if _COLLECTIVES.search(path))
    return next((name for name in names if name not in _WRAPPERS), "")


def _is_start(path: str) -> bool:
    """Whether a frame is of what starts every script."""
    return path == "<string>" or os.path.dirname(path) == os.path.dirname(os.path.abspath(__file__))


def as_sent(trace: str, options: Options) -> str:
    """A stack with the code's files where they were before they travelled here."""
    folder = options.code_dir
    return trace.replace(f'File "{folder}/', 'File "') if folder else trace


class Requests:
    """Requests for stacks, each a file in the result folder. Without a folder, none."""

    def __init__(self, folder: str, node_rank: int) -> None:
        self._folder = folder
        self._path = os.path.join(folder, contract.STACKS_ASK)
        self._node_rank = node_rank
        self._seen = 0
        self._look_at = 0.0 if folder else float("inf")

    def answer(self, workers: Workers, options: Options) -> None:
        """Leave the answer to one that has none yet, whole; where the disk is full there is none."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + EVERY_S
        with contextlib.suppress(OSError):
            changed = os.stat(self._path).st_mtime_ns
            if changed == self._seen:
                return
            self._seen = changed
            nonce = host.read_text(self._path)
            if re.fullmatch(contract.STACKS_NONCE, nonce):
                name = contract.STACKS_FILE.format(nonce=nonce, node_rank=self._node_rank)
                document = {"node_rank": self._node_rank, "ranks": of_node(workers, options)}
                host.put(os.path.join(self._folder, name), json.dumps(document))


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
