"""A rank that is asked where it stands: its main thread's Python stack and, by torch's flight recorder, how
many collectives it has begun: NCCL's and gloo's alike.

A thread answers, which waits in the kernel until it is asked. It holds the interpreter's lock while it looks,
so nothing moves, and a rank that is in the midst of its work takes no harm. Where native code holds that lock
for longer, a signal with a handler in C takes the stack without it. Such a handler reads the frames of
threads that may run, which can end the process (seen with CPython 3.11); while the lock is held so none does.
It is a real-time signal, since torchrun, Slurm and Lightning use SIGUSR1 and 2, and scripts their own.
A kernel that waits on the GPU shows in no stack, as the rank runs ahead of it; the recorder counts.
"""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import json
import os
import signal
import sys

from . import contract, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

HAS_REAL_TIME = hasattr(signal, "SIGRTMIN")
NUMBER = int(signal.SIGRTMIN) + 7 if HAS_REAL_TIME else int(signal.SIGURG)
"""On macOS, which has no real-time signals, one that does nothing to a process without a handler."""

ASKED, TOLD = ".asked", ".told"
"""A fifo, into which who asks writes a byte, and the answer beside it."""

FLIGHT_BUFFER = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
"""Entries that are kept a rank, as by torch since 2.9; the second is the old name."""

_DEEPEST = 100
"""Frames of a stack, as many as faulthandler tells."""

_RECORDERS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


def offer() -> None:
    """Let the agent, if there is one, ask this process for its stack, as long as it lives."""
    path = os.environ.get("GPUTRAIN_ERROR_FILE")
    if not path:
        return
    rank, local_rank = os.environ.get("RANK", "0"), os.environ.get("LOCAL_RANK", "0")
    base = os.path.join(os.path.dirname(path), f"stacks-{rank}-{local_rank}-{os.getpid()}")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        file = os.open(base, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        faulthandler.register(NUMBER, file=file, all_threads=False, chain=False)
    with contextlib.suppress(OSError, RuntimeError):
        os.mkfifo(base + ASKED, 0o600)
        # None of threading's: a script that counts its threads, or ends when they do, finds its own.
        _thread.start_new_thread(_serve, (base, _thread.get_ident()))


def _serve(base: str, main: int) -> None:
    with contextlib.suppress(Exception):  # the folder goes with the agent, and the interpreter may be ending
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
        while True:
            with open(base + ASKED, "rb", buffering=0) as asked:
                asked.read(1)
            told = {"text": _stack(main)}
            host.put(base + TOLD, json.dumps(told))  # before torch is asked, which may take its time
            recorded = _recorded() if os.environ.get(contract.HANG_TIMEOUT) else {}
            host.put(base + TOLD, json.dumps({**told, "recorded": recorded}))


def _stack(thread: int) -> str:
    """The stack of one thread in the words of faulthandler, the most recent call first."""
    lines: List[str] = []
    frame = sys._current_frames().get(thread)
    while frame is not None and len(lines) < _DEEPEST:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno or 0} in {code.co_name}\n')
        frame = frame.f_back
    return "".join(lines).encode("utf-8", "backslashreplace").decode()


def _recorded() -> Dict[str, Any]:
    """Group -> the last collective that was begun and the last that is done, and the name of the former."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    dump = next((getattr(c10d, name) for name in _RECORDERS if hasattr(c10d, name)), None)
    if dump is None:
        return {}
    try:
        return _groups(json.loads(dump()))
    except Exception:  # noqa: BLE001  # a private name of torch's: whatever it does now, it tells nothing
        return {}


def _groups(told: Dict[str, Any]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for group, status in (told.get("pg_status") or {}).items():
        begun = int(status["last_enqueued_collective"])
        names = [
            str(one["profiling_name"])
            for one in told.get("entries") or ()
            if str(one["process_group"][0]) == group and int(one["collective_seq_id"]) == begun
        ]
        name = names[-1] if names else ""
        found[str(group)] = {
            "begun": begun, "done": int(status["last_completed_collective"]), "name": name,
        }  # fmt: skip
    return found
