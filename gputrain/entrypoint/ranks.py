"""The processes of this node: started so that none outlives the agent, signalled, reaped, explained."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import signal
import socket
import subprocess
import time

from . import contract, host, processes
from .options import whole
from .verdict import is_symptom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Sequence

_RANK_PREFIX = re.compile(r"^\[rank\d+\]: ?")

_LOST_WORKER = "killed by signal: Killed"
"""How torch's DataLoader words it (2.13)."""

_GPU_MEMORY = re.compile(
    r"^([\w.]+\.)?OutOfMemoryError\b"
    r"|^([\w.]+\.)?(Runtime|DistBackend|Accelerator)Error: .*\b(CUDA|HIP|XPU|MPS)\b.{0,60}out of memory"
    r"|^([\w.]+\.)?RuntimeError: .*CUBLAS_STATUS_ALLOC_FAILED"
    r"|^([\w.]+\.)?(Xla|Jax)RuntimeError: RESOURCE_EXHAUSTED",
    re.IGNORECASE | re.DOTALL,
)
"""How torch and JAX word it, by general knowledge; torch 2.11's own error was seen on an H100, 2026-11-26."""

TEXT_LIMIT = 8000
"""Characters of a traceback's end that are kept: the result must stay one line of a log."""


class Rank:
    """One process of this node."""

    def __init__(self, rank: int, local_rank: int, error_file: str) -> None:
        self.rank = rank
        self.local_rank = local_rank
        self.error_file = error_file
        self.pid = 0
        self.stdout = self.stderr = -1
        self.exit_code: Optional[int] = None
        self.signal: Optional[str] = None
        self.ended_at = 0.0
        self.was_told: Optional[str] = None
        self.told_at: Optional[float] = None
        """Seconds since 1970."""
        self.is_reported = False
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it in a session of its own. Raises OSError when the command cannot be run."""
        agent = processes.before_fork()
        try:
            self._process = subprocess.Popen(
                list(command),
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=lambda: processes.die_with(agent),  # a system call or two, which need no lock
            )
        except BaseException:
            processes.forgo_child()
            raise
        self.pid = self._process.pid
        processes.keep_child(self.pid)
        assert self._process.stdout
        assert self._process.stderr
        self.stdout = os.dup(self._process.stdout.fileno())
        self.stderr = os.dup(self._process.stderr.fileno())
        self._process.stdout.close()
        self._process.stderr.close()

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and not reaped."""
        return self.pid > 0 and self.exit_code is None

    def end(self, ending: processes.Ending) -> None:
        """Take in how it ended."""
        self.exit_code, self.ended_at = ending.exit_code, time.monotonic()
        if ending.signal is not None:
            self.exit_code = contract.BY_SIGNAL + ending.signal
            with contextlib.suppress(ValueError):
                self.signal = signal.Signals(ending.signal).name
        if self._process is not None:
            self._process.returncode = self.exit_code

    def ask_to_stop(self, why: str) -> None:
        """SIGTERM to the rank itself, not to its DataLoader workers; past a shell."""
        if not self.is_running:
            return
        self.was_told = self.was_told or why
        self.told_at = self.told_at or time.time()
        processes.tell(self._stop_targets(), signal.SIGTERM)

    def _stop_targets(self) -> List[int]:
        """The process; or its children, when it is a shell that would not pass the signal on."""
        if host.is_shell(self.pid) and not host.catches(self.pid, signal.SIGTERM):
            return host.children_of(self.pid) or [self.pid]
        return [self.pid]

    def kill_session(self) -> None:
        """SIGKILL to everything in the rank's session, as long as it is that.

        Nothing new gets its number while anybody is in it: who has that after the rank's end is another.
        """
        is_anothers = not self.is_running and host.state_of(self.pid)
        members = host.session_members(self.pid) if self.pid and not is_anothers else []
        processes.tell(members, signal.SIGKILL)

    def summary(self) -> Dict[str, Any]:
        """How it ended, for the result document."""
        fields = (contract.C_RANK, contract.C_LOCAL_RANK, contract.C_EXIT_CODE, contract.C_SIGNAL)
        return {field: getattr(self, field) for field in fields}


def explain(
    rank: Rank, node_rank: int, last_lines: Sequence[str], oom_killed: bool
) -> Optional[Dict[str, Any]]:
    """Why a rank ended, as the document's cause; None when it saved after a stop."""
    if rank.exit_code == contract.STOPPED:
        return None
    cause: Dict[str, Any] = dict.fromkeys(contract.CAUSE_FIELDS)
    cause.update(rank.summary(), node_rank=node_rank, host=socket.gethostname(), last_lines=list(last_lines))
    if rank.exit_code == 0:
        message = "it ended with 0 while the others still needed it"
        return {**cause, "kind": contract.LEFT_EARLY, "message": message}
    if rank.was_told == "stop" and rank.signal in ("SIGTERM", "SIGKILL"):
        killed = "had to be killed after the grace time"
        how = "was ended by the signal" if rank.signal == "SIGTERM" else killed
        message = f"asked to stop, it saved nothing and {how}"
        return {**cause, "kind": contract.STOP_IGNORED, "message": message}
    error = _error_document(rank.error_file) or _last_traceback(last_lines)
    lost_worker = _LOST_WORKER in str(error.get(contract.C_MESSAGE))
    if oom_killed and (rank.signal == "SIGKILL" or lost_worker):
        text = "a DataLoader worker of it was" if lost_worker else "it was"
        text += " killed by the kernel: out of memory (of the machine or container, not of the GPU)"
        return {**cause, **error, "kind": contract.OUT_OF_MEMORY, "message": text}
    if rank.was_told == "stop" and str(error.get(contract.C_EXCEPTION)).endswith("SignalException"):
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


def _error_document(path: str) -> Dict[str, Any]:
    """What the rank recorded of its exception; of several ranks under one torchrun, the first cause."""
    told = [error for error in map(_read_error, [path, *glob.glob(glob.escape(path) + ".*[0-9]")]) if error]
    told.sort(key=lambda error: (is_symptom({"kind": contract.EXCEPTION, **error}), error.pop("time")))
    return told[0] if told else {}


def _read_error(path: str) -> Dict[str, Any]:
    """One error document: ours, or the one that torchrun's @record writes."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        ours = document.get("gputrain") or {}
        theirs = document["message"]
        if isinstance(theirs, str):
            theirs = {"message": theirs}
        message = str(ours.get("message", theirs.get("message", "")))
        trace = ours.get("traceback") or (theirs.get("extraInfo") or {}).get("py_callstack") or ""
        told = _exception(ours.get("exception") or message.partition(":")[0], message, str(trace))
        told["time"] = float(ours.get("time", "inf"))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}
    for field in (contract.C_RANK, contract.C_LOCAL_RANK):  # torchrun's process is not the rank itself
        number = whole(str(ours.get(field)))
        if number is not None:
            told[field] = number
    return told


def _last_traceback(lines: Sequence[str]) -> Dict[str, Any]:
    """The exception that the last lines show, of a program that the bootstrap did not run."""
    lines = [_RANK_PREFIX.sub("", line) for line in lines]
    head = "Traceback (most recent call last):"
    # What a __del__ or a callback raises ends nothing.
    of_none = [index + 1 for index, line in enumerate(lines) if line.startswith("Exception ignored ")]
    starts = [at for at, line in enumerate(lines) if line.startswith(head) and at not in of_none]
    if not starts:
        return {}
    block = lines[starts[-1] :]
    ends = [index for index, line in enumerate(block[1:], 1) if line and not line.startswith((" ", "\t"))]
    if not ends:
        return {}
    name, _, message = block[ends[0]].partition(": ")
    return _exception(name, message, "\n".join(block[: ends[0] + 1]))


def _exception(name: str, message: str, trace: str) -> Dict[str, Any]:
    text = f"{name}: {message}" if message and not message.startswith(name) else message or name
    return {
        contract.C_EXCEPTION: name[:200],
        contract.C_MESSAGE: text[:2000],
        contract.C_TRACEBACK: trace if len(trace) <= TEXT_LIMIT else "...\n" + trace[-TEXT_LIMIT:],
    }
