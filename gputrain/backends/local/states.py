"""What the job's folder says, as an observation."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from gputrain import causes
from gputrain.backends.local import folder, logs
from gputrain.backends.results import first_cause
from gputrain.entrypoint import contract
from gputrain.lifecycle import Failure, Observation, State

Document = Mapping[str, Any]
LAST_LINES = 20

_KILLED = "its supervisor ended without a word: it was killed, or this machine was restarted"
_UNSTARTED = "its creator ended before it could start it; submit it again under the same name"


def observe(path: str) -> Observation:
    """One look at the job in a folder."""
    is_held = folder.is_held(path)  # asked first: whatever a supervisor wrote before it let go is read after
    told = folder.read_json(os.path.join(path, folder.STATE))
    if told is None:
        return _not_begun(path, is_held)
    state = State(told["state"])
    if not state.is_terminal and is_held:
        return _observation(told, [], state, None)
    documents = _results(path, told)
    if not state.is_terminal:
        return _abandoned(told, documents)
    return _observation(told, documents, state, _failure(path, told, documents, state))


def is_over(path: str) -> bool:
    """Whether nothing of the job runs any more, or will."""
    state = observe(path).state
    return state is not None and state.is_terminal


def _observation(
    told: Document, documents: list[Document], state: State, failure: Failure | None
) -> Observation:
    return Observation(
        state=state,
        detail=str(told.get("detail") or (failure.message if failure else "")),
        failure=failure,
        started_at=_time(told.get("started_at")),
        ended_at=_time(told.get("ended_at")),
        attempt=int(told.get("attempt", 0)),
        exit_code=told.get("exit_code"),
        raw={"state": told, "results": documents},
    )


def _not_begun(path: str, is_held: bool) -> Observation:
    if is_held:
        return Observation(state=State.QUEUED, detail="starts")
    if os.path.exists(os.path.join(path, folder.CANCEL)):
        return Observation(state=State.CANCELLED, failure=Failure(kind=causes.CANCELLED.kind))
    order = folder.read_json(os.path.join(path, folder.ORDER)) or {}
    if folder.now() <= order.get("created_at", 0.0) + order.get("max_wait_s", 0.0):
        return Observation(state=State.QUEUED, detail=_UNSTARTED)
    failure = Failure(kind=causes.UNSTARTED.kind, message=_UNSTARTED)
    return Observation(state=causes.UNSTARTED.state, detail=_UNSTARTED, failure=failure)


def _abandoned(told: Document, documents: list[Document]) -> Observation:
    """The supervisor is gone in mid-job, and the kernel has ended its agents and their ranks."""
    last = next((one for one in documents if one.get(contract.R_NODE_RANK) == 0), None)
    if last is not None and last.get(contract.R_STATE) == contract.STATE_DONE:
        done = {**told, "exit_code": contract.DONE, "detail": ""}
        return _observation(done, documents, State.SUCCEEDED, None)
    failure = first_cause(documents) or Failure(kind=causes.LOST.kind, message=_KILLED)
    return _observation(told, documents, State.FAILED, failure)


def _failure(path: str, told: Document, documents: list[Document], state: State) -> Failure | None:
    if state is State.SUCCEEDED:
        return None
    if state is not State.FAILED:
        return _wished(told, state)
    lost = {int(node): number for node, number in (told.get("lost") or {}).items()}
    found = first_cause(documents)
    if found is not None and found.rank is not None:
        return found
    if lost:
        node, number = min(lost.items())
        message = f"the agent of node {node} was ended by {signal.Signals(number).name}"
        return Failure(kind=causes.NODE_LOST.kind, message=message, node_rank=node)
    return found or _without_document(path, told)


def _wished(told: Document, state: State) -> Failure:
    """The end of a job that was cancelled, or had its time."""
    cause = causes.CANCELLED
    if state is State.EXPIRED:  # one that no agent has left never got its GPUs
        cause = causes.WAIT_LIMIT if told.get("exit_code") is None else causes.TIME_LIMIT
    return Failure(kind=cause.kind, message=str(told.get("detail", "")), exit_code=told.get("exit_code"))


def _without_document(path: str, told: Document) -> Failure:
    """An agent that could not even start says why in its log."""
    code = told.get("exit_code")
    if code == contract.STOPPED:
        return Failure(kind=causes.STOPPED.kind, message="it was stopped from outside", exit_code=code)
    message = contract.EXIT_CODES.get(code or 0, "") or f"the agent of node 0 ended with exit code {code}"
    if told.get("disk_was_full"):
        message = f"the disk that holds {path} was full"
    message = str(told.get("detail") or message)
    lines = tuple(line.message for line in logs.read(path, "", is_over=True).lines)
    return Failure(kind=causes.EXIT.kind, message=message, exit_code=code, last_lines=lines[-LAST_LINES:])


def _results(path: str, told: Document) -> list[Document]:
    attempt = os.path.join(path, folder.ATTEMPT.format(attempt=told.get("attempt", 0)))
    order = folder.read_json(os.path.join(path, folder.ORDER)) or {}
    names = [contract.RESULT_FILE.format(node_rank=rank) for rank in range(len(order.get("nodes", ())))]
    found = (folder.read_json(os.path.join(attempt, name)) for name in names)
    return [document for document in found if document is not None]


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
