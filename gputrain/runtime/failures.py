"""Why ranks and nodes ended, which of these failures was the first cause, and what the job's result is: pure,
on what each node reports, so that every node ends with the same. A node's result has `ends`, a time and a
cause each, `is_final` once none of its ranks runs any more, and `standings` where a hang was looked into.

When one rank dies, its peers die of it: their sockets close, their collectives time out. Such failures are
secondary. One is blamed only when no cause shows up in time; among causes the earliest wins. Measured with
torch 2.13 and gloo: by time alone a healthy peer was blamed in 1 of 2 segmentation faults.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import contract, stacks
from .processes import Rank

Cause = dict[str, Any]
Document = dict[str, Any]

_RANK_PREFIX = re.compile(r"^\[rank\d+\]: ?")

_WORKER_KILLED = "killed by signal: Killed"
"""How torch's DataLoader words it (2.13)."""

_GPU_MEMORY = re.compile(
    r"^([\w.]+\.)?OutOfMemoryError\b"
    r"|^([\w.]+\.)?(Runtime|DistBackend|Accelerator)Error: .*\b(CUDA|HIP|XPU|MPS)\b.{0,60}out of memory"
    r"|^([\w.]+\.)?RuntimeError: .*CUBLAS_STATUS_ALLOC_FAILED"
    r"|^([\w.]+\.)?(Xla|Jax)RuntimeError: RESOURCE_EXHAUSTED",
    re.IGNORECASE | re.DOTALL,
)
"""How torch and JAX word it, by general knowledge; torch 2.11's own error was seen on an H100, 2026-11-26."""

SHOWN_LINES = 30
"""How many of a rank's last lines a cause holds."""

OF_LAUNCHERS = ("CalledProcessError", "ChildFailedError", "ProcessExitedException")
"""What launchers raise once a program of theirs has failed."""

TEXT_LIMIT = 8000
"""Characters of a traceback's end that are kept: the result must stay one line of a log."""


CAUSE_SETTLES_S = 0.25
"""How long a cause waits for an earlier one from another node."""

SYMPTOM_WAITS_S = 3.0
"""How long a symptom waits for a cause."""

SEEN_LATE_S = 1.0
"""How much later than its peers' symptoms a rank's end may be seen, by another agent."""

_SYMPTOM = re.compile(
    r"(closed|reset|aborted) by (remote )?peer|connection (was )?(closed|reset|aborted|refused)|broken ?pipe"
    r"|ncclRemoteError|ncclSystemError|remote process exited|unhandled system error"
    r"|watchdog caught collective|collective operation timeout|heartbeat monitor|pair closure"
    r"|timed out waiting .*(recv|send|store|client|operation|key)|socket timeout|(recv|send)Value failed"
    r"|failed to (recv|send), got|Dist(Network|Store)Error",
    re.IGNORECASE,
)
"""How gloo, NCCL, c10d's store and plain sockets word the loss of a peer (torch 2.13)."""


class Loss:
    """A rank that failed or a node that was lost: when, and whether it looks like the effect of another."""

    def __init__(self, cause: Cause, happened_at: float) -> None:
        self.cause, self.happened_at, self.heard_at = cause, happened_at, 0.0
        self.is_symptom = is_symptom(cause)

    @property
    def decides_at(self) -> float:
        """When to stop waiting for a better explanation."""
        return self.heard_at + (SYMPTOM_WAITS_S if self.is_symptom else CAUSE_SETTLES_S)


def is_symptom(cause: Cause) -> bool:
    """Whether a failure looks like the effect of a peer's end.

    >>> is_symptom({"kind": "exception", "message": "[...] Connection closed by peer [127.0.0.1]:4711"})
    True
    """
    kind = cause.get("kind")
    if kind == contract.SIGNAL and cause.get("signal") not in ("SIGABRT", "SIGPIPE"):
        return False
    if kind not in (contract.EXCEPTION, contract.SIGNAL, contract.EXIT):
        return False
    if cause.get("signal") == "SIGPIPE":
        return True
    texts = [cause.get("exception"), cause.get("message"), cause.get("traceback")]
    if kind != contract.EXCEPTION:
        texts += cause.get("last_lines") or []
    return any(_SYMPTOM.search(str(text)) for text in texts if text)


def first_cause(failures: Sequence[Loss], left: Sequence[Loss]) -> Cause:
    """The failure to blame: a broken GPU, else the earliest cause, else one that `left` with 0 before the
    first symptom, else that.
    """
    broken = [failure for failure in failures if failure.cause["kind"] == contract.GPU_FAULT]
    causes = broken or [failure for failure in failures if not failure.is_symptom]
    if causes:
        return min(causes, key=_when).cause
    symptom = min(failures, key=_when)
    deserters = [rank for rank in left if rank.happened_at <= symptom.happened_at + SEEN_LATE_S]
    return min(deserters, key=_when).cause if deserters else symptom.cause


def exit_code_of(cause: Cause) -> int:
    """What the job exits with because of this cause: the rank's own code where it has one, never 0."""
    if cause["kind"] in (contract.NODE_LOSS, contract.NODE_MISSING, contract.GPU_FAULT):
        return contract.NODE_LOST
    return int(cause.get("exit_code") or 1)


def job_result(state: str, code: int, cause: Cause | None, stop: dict[str, Any] | None) -> dict[str, Any]:
    """The part of the result document that is the same on every node."""
    return {"state": state, "exit_code": code, "cause": cause, "stop": stop}


def lost_node(rank: int, host: str, name: str, silent_s: float = 0.0) -> dict[str, Any]:
    """The cause that a node's agent went away, or says nothing."""
    message = f"{name} was lost: its agent or its machine ended without a word"
    if silent_s:
        message = f"{name} answers no more: nothing came from it for {silent_s:g} s"
    return node_cause(contract.NODE_LOSS, rank, host, message)


def node_cause(kind: str, rank: int, host: str, message: str) -> dict[str, Any]:
    """A cause that is about a node, not about one of its ranks."""
    cause: dict[str, Any] = dict.fromkeys(contract.CAUSE_FIELDS)
    cause.update(kind=kind, node_rank=rank, host=host or None, message=message, last_lines=[])
    return cause


def describe(cause: Cause) -> list[str]:
    """A cause as a person reads it."""
    rank, node, host = cause.get("rank"), cause.get("node_rank"), cause.get("host")
    where = f"rank {rank} on node {node}" if rank is not None else f"node {node}"
    head = f"first cause: {where}" + (f" ({host})" if host else "") + f": {cause['message']}"
    text = cause.get("traceback") or "\n".join(cause.get("last_lines") or ())
    return [head] + ["  " + line for line in str(text).splitlines()]


def _when(failure: Loss) -> float:
    return failure.happened_at


def explain(rank: Rank, node_rank: int, last_lines: Sequence[str], oom_killed: bool) -> dict[str, Any] | None:
    """Why a rank ended, as the document's cause; None when it saved after a stop."""
    if rank.exit_code == contract.STOPPED:
        return None
    cause: dict[str, Any] = dict.fromkeys(contract.CAUSE_FIELDS)
    cause.update(rank.summary(), node_rank=node_rank, host=socket.gethostname())
    cause[contract.C_LAST_LINES] = list(last_lines)[-SHOWN_LINES:]
    if rank.exit_code == 0:
        message = "it ended with 0 while the others still needed it"
        return {**cause, "kind": contract.LEFT_EARLY, "message": message}
    if rank.asked_to == "stop" and rank.signal in ("SIGTERM", "SIGKILL"):
        killed = "had to be killed after the grace time"
        how = "was ended by the signal" if rank.signal == "SIGTERM" else killed
        message = f"asked to stop, it saved nothing and {how}"
        return {**cause, "kind": contract.STOP_IGNORED, "message": message}
    error = _recorded(rank.error_file) or _last_traceback(last_lines)
    worker_killed = _WORKER_KILLED in str(error.get(contract.C_MESSAGE))
    if oom_killed and (rank.signal == "SIGKILL" or worker_killed):
        text = "a DataLoader worker of it was" if worker_killed else "it was"
        text += " killed by the kernel: out of memory (of the machine or container, not of the GPU)"
        return {**cause, **error, "kind": contract.OUT_OF_MEMORY, "message": text}
    if rank.asked_to == "stop" and str(error.get(contract.C_EXCEPTION)).endswith("SignalException"):
        text = "torchrun was stopped and does not tell whether its ranks saved"
        return {**cause, **error, "kind": contract.STOP_IGNORED, "message": text}
    if error.get(contract.C_EXCEPTION) == "SystemExit":  # sys.exit("text")
        text = str(error[contract.C_MESSAGE]).partition("SystemExit: ")[2]
        return {**cause, "kind": contract.EXIT, "message": text}
    if error and not rank.signal:
        is_memory = _GPU_MEMORY.search(str(error[contract.C_MESSAGE]))
        return {**cause, **error, "kind": contract.GPU_MEMORY if is_memory else contract.EXCEPTION}
    if rank.signal:
        return {**cause, **error, "kind": contract.SIGNAL, "message": f"ended by {rank.signal}"}
    return {**cause, "kind": contract.EXIT, "message": f"ended with exit code {rank.exit_code}"}


def _recorded(path: str) -> dict[str, Any]:
    """The exception that a rank recorded, in our form or in that of torchrun's @record."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        message = found["message"]
        if "exception" in found:
            return _exception(found["exception"], message, found["traceback"] or "")
        theirs: dict[str, Any] = {"message": message} if isinstance(message, str) else message
        text = str(theirs["message"])
        trace = (theirs.get("extraInfo") or {}).get("py_callstack") or ""
        return _exception(text.partition(":")[0], text, str(trace))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}


def _last_traceback(lines: Sequence[str]) -> dict[str, Any]:
    """The exception that the last lines show; of a launcher whose child has failed, the child's."""
    lines = [_RANK_PREFIX.sub("", line) for line in lines]
    head = "Traceback (most recent call last):"
    # What a __del__ or a callback raises ends nothing.
    of_none = [index + 1 for index, line in enumerate(lines) if line.startswith("Exception ignored ")]
    starts = [at for at, line in enumerate(lines) if line.startswith(head) and at not in of_none]
    if not starts:
        return {}
    found = {}
    for start in reversed(starts):
        block = lines[start:]
        ends = [index for index, line in enumerate(block[1:], 1) if line and not line.startswith((" ", "\t"))]
        if not ends:
            break
        name, _, message = block[ends[0]].partition(": ")
        found = _exception(name, message, "\n".join(block[: ends[0] + 1]))
        if name.rpartition(".")[2] not in OF_LAUNCHERS:
            break
    return found


def _exception(name: str, message: str, trace: str) -> dict[str, Any]:
    text = f"{name}: {message}" if message and not message.startswith(name) else message or name
    return {
        contract.C_EXCEPTION: name[:200],
        contract.C_MESSAGE: text[:2000],
        contract.C_TRACEBACK: trace if len(trace) <= TEXT_LIMIT else "...\n" + trace[-TEXT_LIMIT:],
    }


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
    return hang_cause(timeout, standings, [one.cause["rank"] for one in ends.left], mute)


def hang_cause(
    silent_s: float, standings: Sequence[Document], left: Sequence[int], mute: Sequence[str] = ()
) -> dict[str, Any]:
    """The cause of a hang: `left` had ended with 0 before, nodes that are `mute` did not answer."""
    guilty, sentence = stacks.story(standings, left, mute)
    found = node_cause(contract.HANG, 0, "", f"silent for {silent_s:g} s: {sentence}")
    if guilty is not None:
        found.update(rank=guilty["rank"], local_rank=guilty["local_rank"], node_rank=guilty["node_rank"])
        traced = guilty if guilty["trace"] else next((one for one in standings if one["trace"]), guilty)
        trace = f"rank {traced['rank']}, most recent call first:\n{traced['trace']}"
        found.update(traceback=trace if traced["trace"] else None)
    return found
