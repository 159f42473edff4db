"""How many collectives each rank has begun, by torch's flight recorder: NCCL's and gloo's alike.

A kernel that waits on the GPU shows in no stack, as the rank runs ahead of it; the recorder counts. A thread
of the rank waits at a fifo for the question, so nothing is asked of a rank but one byte.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

BUFFER = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
"""Entries that are kept a rank: what torch keeps since 2.9, and not before. The second is the old name."""

_MOST = 1 << 20
_NAMES = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


def offer(base: str) -> None:
    """Answer whoever writes a byte into the fifo of this name, for as long as the process lives."""
    with contextlib.suppress(OSError):
        os.mkfifo(base, 0o600)
        threading.Thread(target=_serve, args=(base,), name="gputrain-flight", daemon=True).start()


def _serve(base: str) -> None:
    with contextlib.suppress(OSError):  # the folder goes with the agent
        while True:
            with open(base, "rb") as asked:
                asked.read()
            with open(base + ".new", "w", encoding="utf-8") as file:
                json.dump(_recorded(), file)
            os.replace(base + ".new", base + ".json")


def _recorded() -> Dict[str, Any]:
    """Group -> the last collective that was begun and the last that is done, and the name of the former."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    dump = next((getattr(c10d, name) for name in _NAMES if hasattr(c10d, name)), None)
    if dump is None:
        return {}
    try:
        told = json.loads(dump())
        return _groups(told)
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


def ask(base: str) -> bool:
    """Ask; whether somebody is there to answer."""
    with contextlib.suppress(OSError):
        os.unlink(base + ".json")
    try:
        fd = os.open(base, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.write(fd, b"?")
    os.close(fd)
    return True


def read(base: str) -> Optional[Dict[str, Any]]:
    """What was answered; None: nothing yet. A rank whose interpreter native code holds answers nothing."""
    with contextlib.suppress(OSError, ValueError), open(base + ".json", encoding="utf-8") as file:
        found = json.loads(file.read(_MOST))
        return found if isinstance(found, dict) else {}
    return None
