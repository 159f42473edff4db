"""What the folder of an attempt says: its status, its logs, and where its ranks stand."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends import agent_reports as reports
from gputrain.backends.agent_reports import first_cause, losses
from gputrain.backends.base import Status
from gputrain.backends.local import folder
from gputrain.errors import RequestError
from gputrain.jobstore.folder import explained
from gputrain.lifecycle import Failure, State
from gputrain.runtime import contract, host
from gputrain.runtime.contract import ENDED, RUNNING, STARTING

Document = Mapping[str, Any]
LAST_LINES = 20

_KILLED = "its supervisor wrote no end: it was killed, or this machine was restarted"


def inspect(path: str) -> Status:
    """What the folder of an attempt that was launched says."""
    is_held = folder.is_held(path)  # before the state is read: a supervisor writes that, and then lets go
    report = _report(path)
    if report.state is None:
        return Status(detail=f"what {path} says of its state cannot be read")
    if not report.is_over and is_held:
        return _status(report, report.state)
    documents = _results(path, report)
    if report.is_over:
        return _status(report, report.state, documents, _failure(path, report, documents), report.at(ENDED))
    # The supervisor was killed, and the kernel has ended its agents and their ranks.
    report, ended_at = attrs.evolve(report, message=""), _last_write(path)
    if any(_is_success_of_node_0(one) for one in documents):
        return _status(report, State.SUCCEEDED, documents, None, ended_at)
    failure = first_cause(documents) or Failure(kind=causes.LOST.kind, message=_KILLED)
    return _status(report, State.FAILED, documents, failure, ended_at)


def is_over(path: str) -> bool:
    """Whether nothing of the attempt runs any more."""
    state = inspect(path).state
    return state is not None and state.is_terminal


def _report(path: str) -> reports.Status:
    return reports.read(host.read_json(os.path.join(path, folder.STATE)) or {})


def _status(
    report: reports.Status, state: State, documents: Sequence[Document] = (), failure: Failure | None = None,
    ended_at: datetime | None = None,
) -> Status:  # fmt: skip
    message = report.message or (failure.message if failure else "")
    never_ran = report.exit_code in (None, contract.BAD_ENVIRONMENT, contract.NODE_LOST)
    # An attempt may be over before its supervisor has seen that ranks run.
    has_begun = state is State.INTERRUPTED or (report.is_over and not never_ran)
    began = report.at(RUNNING) or (report.at(STARTING) if has_begun else None)
    return Status(
        state=state,
        exists=True,
        is_whole=not state.is_terminal,
        cause=causes.of(failure.kind) if failure else None,
        has_run=began is not None,
        ran_s=max(0.0, (ended_at - began).total_seconds()) if ended_at and began else 0.0,
        detail="; ".join(filter(None, [message, losses([report], documents)])),
        failure=failure,
        started_at=began,
        ended_at=ended_at,
        restarts=report.attempt,
    )


def _is_success_of_node_0(document: Document) -> bool:
    is_node_0 = document.get(contract.R_NODE_RANK) == 0
    return is_node_0 and document.get(contract.R_STATE) == contract.STATE_DONE


def _last_write(path: str) -> datetime | None:
    """When a process of the attempt last wrote: no later than its end."""
    paths = [os.path.join(path, folder.STATE), *(_log(path, rank) for rank in range(_node_count(path)))]
    written = [os.path.getmtime(one) for one in paths if os.path.exists(one)]
    return datetime.fromtimestamp(max(written), tz=timezone.utc) if written else None


def _failure(path: str, report: reports.Status, documents: list[Document]) -> Failure | None:
    if report.state is State.SUCCEEDED:
        return None
    if report.cause is not None:
        silent = reports.silence(documents) if report.cause is causes.TIME_LIMIT else ""
        message = "; ".join(filter(None, (report.message or report.cause.title, silent)))
        return Failure(kind=report.cause.kind, message=message, exit_code=report.exit_code)
    found = first_cause(documents)
    if found is not None and found.kind not in (contract.NODE_LOSS, contract.NODE_MISSING):
        return found
    if report.lost:
        node, number = min(report.lost.items())
        known = number in tuple(signal.Signals)
        name = signal.Signals(number).name if known else f"signal {number}"
        message = f"the agent of node {node} was ended by {name}"
        return Failure(kind=causes.NODE_LOST.kind, message=message, node_rank=node)
    return found or _without_document(path, report, documents)


def _without_document(path: str, report: reports.Status, documents: list[Document]) -> Failure:
    """An agent that could not even start says why in its log."""
    code = report.exit_code
    if code == contract.STOPPED:
        return Failure(kind=causes.STOPPED.kind, message=reports.asked_by(documents), exit_code=code)
    message = contract.EXIT_CODES.get(code or 0, "") or f"the agent of node 0 ended with exit code {code}"
    if report.disk_was_full:
        message = f"the disk that holds {path} was full"
    lines = tuple(line.message for line in logs(path, is_over=True).read("").lines)
    return Failure(kind=causes.EXIT.kind, message=message, exit_code=code, last_lines=lines[-LAST_LINES:])


def _results(path: str, report: reports.Status) -> list[Document]:
    names = (contract.RESULT_FILE.format(node_rank=rank) for rank in range(_node_count(path)))
    found = (host.read_json(os.path.join(_run_folder(path, report), name)) for name in names)
    return [reports.read_result(document) for document in found if document is not None]


def _run_folder(path: str, report: reports.Status) -> str:
    """Where the agents of its last restart write."""
    return os.path.join(path, folder.ATTEMPT.format(attempt=report.attempt))


class FolderLogs:
    """The logs of the nodes of the attempt in a folder, each in one part, as of `LogStore`."""

    settles_s = 0.02

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, attempt: str, rank: int, part: int, first: int, most: int) -> bytes:  # noqa: ARG002
        with suppress(FileNotFoundError), open(_log(self._path, rank), "rb") as file:
            file.seek(first)
            return file.read(most)
        return b""

    def is_finished(self, size: int) -> bool:  # noqa: ARG002
        return False

    def parts(self, attempt: str) -> Mapping[int, Sequence[tuple[int, int]]]:  # noqa: ARG002
        paths = ((rank, _log(self._path, rank)) for rank in range(_node_count(self._path)))
        return {rank: [(0, os.path.getsize(log))] for rank, log in paths if os.path.exists(log)}


def logs(path: str, *, is_over: bool) -> reports.NodeLogs:
    """The log of the attempt in a folder."""
    attempt = os.path.basename(path)
    return reports.NodeLogs(
        store=FolderLogs(path), attempts=[attempt], nodes=_node_count(path), is_over=is_over
    )


def _log(path: str, node_rank: int) -> str:
    return os.path.join(path, folder.NODE_LOG.format(node_rank=node_rank))


def _node_count(path: str) -> int:
    nodes = (host.read_json(os.path.join(path, folder.ORDER)) or {}).get("nodes")
    return len(nodes) if isinstance(nodes, list) else 0


def ask_for_stacks(path: str, nonce: str) -> None:
    """Leave the question; twice is two questions. RequestError: no agent is there yet."""
    inside = _run_folder(path, _report(path))
    if not os.path.isdir(inside):
        raise RequestError(f"{os.path.basename(path)} starts: no ranks of it run", fix="ask a moment later")
    with explained(path):
        host.put(os.path.join(inside, contract.STACKS_ASK), nonce)


def read_stacks(path: str, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:
    """The answers that are there, by node."""
    inside, found = _run_folder(path, _report(path)), {}
    for name in os.listdir(inside):
        node = reports.node_of(name, nonce)
        if node is not None:
            with open(os.path.join(inside, name), "rb") as file:
                found[node] = reports.read_standings(file.read(reports.MOST_BYTES), node)
    return found
