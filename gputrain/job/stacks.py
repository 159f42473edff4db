"""Where the ranks of a job stand: asked of all its agents at once, and shown."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from gputrain.backends.base import Backend
from gputrain.display.table import Table, TableDisplay, TextDisplay
from gputrain.errors import JobTimeoutError
from gputrain.jobstore import JobRecord
from gputrain.runtime.stacks import story

_FOLDER = re.compile(r'"[^"\n]*/')
EVERY_S = 1.0
"""How often answers are looked for, where a backend does not look oftener."""


@attrs.frozen(kw_only=True)
class Stack(TextDisplay):
    """Where one rank stands."""

    rank: int
    local_rank: int
    node_rank: int
    collective: str
    """The call of torch's in which it waits for others; empty where it is at work of its own."""
    place: str
    """Function, file and line of the script that it is at."""
    trace: str
    """The stack of its main thread, the most recent call first."""
    absent: str = ""
    """Why it has no stack: how it could not be asked, or that it had ended; empty where it has one."""
    recorded: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """Of each group of processes, what torch's flight recorder has counted: ``begun``, ``done``, ``name``."""

    def __str__(self) -> str:
        where = f"rank {self.rank} on node {self.node_rank}"
        if self.absent:
            return f"{where}: {self.absent}"
        waits = f"waits in {self.collective}, at " if self.collective else ""
        return f"{where}: {waits}{self.place}\n{self.trace}".rstrip()


@attrs.frozen(kw_only=True)
class Stacks(TableDisplay):
    """Where all ranks stand, in order of rank."""

    ranks: tuple[Stack, ...]
    missing: tuple[int, ...] = ()
    """Nodes that did not answer in time."""

    @property
    def story(self) -> str:
        """Who waits in which collective, and who never came to it, in one sentence."""
        ranks = [attrs.asdict(one) for one in self.ranks]
        return story(ranks, mute=[f"node {node}" for node in self.missing])[1]

    @property
    def table(self) -> Table:
        """A row for each rank."""
        rows = [
            (str(one.rank), str(one.node_rank), one.collective, one.place or one.absent) for one in self.ranks
        ]
        columns = ("rank", "node", "waits in", "at")
        return Table(columns=columns, rows=rows, right=columns[:2], caption=self.story)

    @property
    def traces(self) -> Mapping[str, tuple[int, ...]]:
        """Each different stack once, and the ranks that have it; the nodes' folders make no difference."""
        alike: dict[str, list[Stack]] = {}
        for one in (one for one in self.ranks if one.trace):
            alike.setdefault(_FOLDER.sub('"', one.trace), []).append(one)
        return {some[0].trace: tuple(one.rank for one in some) for some in alike.values()}


def ask(
    record: JobRecord, backend: Backend, nodes: int, timeout_s: float, sleep: Callable[[float], None]
) -> Stacks:
    """Ask the agents of a running job, and wait for their answers.

    Raises:
        RequestError: the backend has no way to ask.
        JobTimeoutError: no node has answered in time.
    """
    nonce, until = secrets.token_hex(8), time.monotonic() + timeout_s
    backend.ask_for_stacks(record, nonce)
    answers: Mapping[int, Sequence[Mapping[str, Any]]] = {}
    while len(answers) < nodes and time.monotonic() < until:
        sleep(min(backend.poll_s, EVERY_S))
        answers = backend.stacks(record, nonce)
    if not answers:
        raise JobTimeoutError(
            f"no node of {record.job_id} reported stacks within {timeout_s:g} s",
            why="its agents may not run yet or any more, or cannot reach the bucket",
            fix="look at its state and its log, and ask again",
        )
    ranks = sorted((one for some in answers.values() for one in some), key=lambda one: one["rank"])
    missing = tuple(node for node in range(nodes) if node not in answers)
    return Stacks(ranks=tuple(Stack(**one) for one in ranks), missing=missing)
