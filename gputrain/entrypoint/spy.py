"""The stacks of processes that offer none, by py-spy where the machine has it and lets it look."""

from __future__ import annotations

import json
import subprocess
import time

from . import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

WITHIN_S = 1.5
"""All of them together; one takes 0.1 s."""


def take(ranks: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """As `stacks.take`, of the first Python below each of some ranks that have a process."""
    import shutil  # seldom needed, and half a megabyte

    program = shutil.which("py-spy") if ranks else None
    looks = [(one, _python_of(one["pid"])) for one in ranks if one["pid"]] if program else []
    words = [str(program), "dump", "--json", "--nonblocking", "--pid"]
    started = [
        (one, subprocess.Popen([*words, str(pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        for one, pid in looks
        if pid
    ]
    found, until = [], time.monotonic() + WITHIN_S
    for one, process in started:
        text = _told(process, until)
        if text:
            found.append({**one, "text": text, "absent": ""})
    return found


def _python_of(pid: int) -> int:
    """The process itself or the nearest below it that runs Python; 0 where none does."""
    line = [pid]
    while line:
        one = line.pop(0)
        if host.program_of(one).lower().startswith("python"):
            return one
        line += host.children_of(one)
    return 0


def _told(process: subprocess.Popen[bytes], until: float) -> str:
    """Its threads in the words of faulthandler, the main thread last; empty where nothing can be told."""
    try:
        said, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
        threads = json.loads(said.decode())
        return "\n".join(_thread(one) for one in sorted(threads, key=_is_main))
    except subprocess.TimeoutExpired:
        process.kill()  # and left behind: it may be stuck where the rank is
        assert process.stdout
        process.stdout.close()
    except (ValueError, KeyError, TypeError):
        pass  # it may not look, or speaks otherwise than it did (0.4)
    return ""


def _is_main(thread: Dict[str, Any]) -> bool:
    return thread.get("thread_name") == "MainThread"


def _thread(thread: Dict[str, Any]) -> str:
    frames = [f'  File "{one["filename"]}", line {one["line"]} in {one["name"]}' for one in thread["frames"]]
    return "\n".join([f"Thread {thread['thread_id']} (most recent call first):", *frames])
