"""What runs in every rank around the user's script: it records an exception, tells the stack, ends in order.

The end is Python's own, but for three things. A run that succeeded destroys its process groups, since gloo's
threads otherwise abort many a process at its exit (38 of 80 with collectives in flight, torch 2.13). One that
failed does not wait for its threads without end. And each notes its exit code, which counts where threads of
native code abort the interpreter while it goes down.
"""

from __future__ import annotations

import _thread
import atexit
import builtins
import contextlib
import faulthandler
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
import types
from typing import Any

from . import contract, host

FAILED_EXIT_S = 10.0
"""How long the end of a rank that failed may take; its peers wait for it to go."""

LOOK_S = 0.2
"""How often a rank looks whether its stack is asked for."""

DEEPEST = 100
"""Frames of a stack, as many as faulthandler shows."""


def main() -> None:
    """Run ``sys.argv[1:]``, ``script.py args`` or ``-m module args``, as Python itself would, and exit."""
    faulthandler.enable()
    _offer_stack()
    ending: list[int] = []
    atexit.register(_note_end, os.getpid(), ending)  # the first that is registered runs last
    atexit.register(_destroy_process_groups)
    del sys.argv[0]
    code = 0
    try:
        if sys.argv[0] == "-m":
            _run_module()
        else:
            _run_script(sys.argv[0])
    except SystemExit as leaving:
        code = _code_of(leaving)
    except BaseException as error:  # noqa: BLE001  # the top of a rank: any error is recorded
        trace = error.__traceback__
        while trace and ("runpy" in (name := trace.tb_frame.f_code.co_filename) or name == __file__):
            trace = trace.tb_next
        error.__traceback__ = trace or error.__traceback__
        del trace  # which holds the open files of its frames
        _record(error, "".join(traceback.format_exception(type(error), error, error.__traceback__)))
        with contextlib.suppress(BaseException):  # of a hook of the script's
            sys.excepthook(type(error), error, error.__traceback__)
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    # Outside the handlers: a traceback that is still held holds the open files of its frames.
    with contextlib.suppress(ValueError):  # in another thread than the main one
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a stop is too late to change how the script ended
    if code not in (contract.DONE, contract.STOPPED):
        atexit.unregister(_destroy_process_groups)  # which may wait for peers
        _leave_at_the_latest(code)
        _note_end(os.getpid(), [code])
    ending.append(code)
    sys.exit(code)


def _run_script(path: str) -> None:
    """As ``python path`` does; the module stays ``__main__`` for good, so spawned children find it."""
    full = os.path.abspath(path)
    _set_path(os.path.dirname(os.path.realpath(full)))
    module = types.ModuleType("__main__")
    module.__file__ = full
    vars(module).update(__builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    with io.open(full, "rb") as file:
        code = compile(file.read(), full, "exec", dont_inherit=True)
    exec(code, vars(module))  # noqa: S102  # running the user's script is the purpose


def _run_module() -> None:
    """As ``python -m module`` does, by the function that ``python -m`` itself calls."""
    import runpy

    del sys.argv[0]
    _set_path(os.getcwd())
    sys.modules["__main__"] = types.ModuleType("__main__")
    runpy._run_module_as_main(sys.argv[0])  # type: ignore[attr-defined]


def _set_path(first: str) -> None:
    """The search path Python would have, then gputrain's own place: a zipapp early, a folder last."""
    root = sys.path.pop(0)
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, first)
    if os.path.isfile(root):
        sys.path.insert(1, root)
    elif root not in sys.path:
        sys.path.append(root)


def _code_of(leaving: SystemExit) -> int:
    """The exit code that Python would give; a text goes to standard error."""
    code = 0 if leaving.code is None else leaving.code
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 255
    _record(leaving, None)
    with contextlib.suppress(BaseException):
        sys.stderr.write(f"{code}\n")
    return 1


def _record(error: BaseException, trace: str | None) -> None:
    """Write the exception into the rank's error document, for the agent."""
    try:
        text = str(error)[:4000]
    except BaseException:  # noqa: BLE001  # code of the script's; Python itself words it so
        text = "<exception str() failed>"
    written = [os.environ.get(name, "") for name in (contract.CHECKPOINT_DIR, contract.OUTPUT_DIR, "TMPDIR")]
    if full := host.full_disk([*filter(None, written), "."]):
        text += f" (the disk of {full} is full)"  # torch.save says "unexpected pos" of that
    kind, path = type(error), os.environ.get(contract.ERROR_FILE)
    is_plain = kind.__module__ in ("builtins", "__main__")
    name = kind.__name__ if is_plain else f"{kind.__module__}.{kind.__name__}"
    if path:
        with contextlib.suppress(OSError):  # a rank whose disk is full still has to end with its own code
            host.put(path, json.dumps({"exception": name, "message": text, "traceback": trace}))


def _note_end(pid: int, ending: list[int]) -> None:
    """Write down how the script ended, for the supervisor; forks of the script write nothing."""
    path = os.environ.get(contract.ERROR_FILE)
    if path and ending and pid == os.getpid():
        with contextlib.suppress(OSError):
            host.put(path + contract.EXITED, str(ending[0]))


def _destroy_process_groups() -> None:
    distributed = sys.modules.get("torch.distributed")
    with contextlib.suppress(Exception):
        if distributed is not None and distributed.is_initialized():
            distributed.destroy_process_group()


def _leave_at_the_latest(code: int) -> None:
    """End the process even if its threads or children do not end; say where each thread is."""

    def leave() -> None:
        for frame in sys._current_frames().values():
            traceback.print_stack(frame)
        os._exit(code)

    timer = threading.Timer(FAILED_EXIT_S, leave)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # no thread can start
        timer.start()


def _offer_stack() -> None:
    """Start a thread that writes the main thread's stack into a file each time that somebody asks for it."""
    folder = os.path.dirname(os.environ.get(contract.ERROR_FILE, ""))
    rank, local_rank = os.environ.get("RANK", "0"), os.environ.get("LOCAL_RANK", "0")
    path = os.path.join(folder, contract.RANK_STACK_FILE.format(rank, local_rank, os.getpid()))
    if folder:
        with contextlib.suppress(OSError, RuntimeError):  # no room on the disk, no thread can start
            host.put(path, "{}")
            # Not one of threading's: a script that counts its threads finds its own.
            _thread.start_new_thread(_answer, (folder, path, _thread.get_ident()))


def _answer(folder: str, path: str, main_thread: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
    answered = ""
    while os.path.isdir(folder):
        with contextlib.suppress(Exception):  # no supervisor, no room on the disk, no descriptor: try again
            with open(os.path.join(folder, contract.STACKS_ASK), encoding="ascii") as file:
                asked = file.read()
            if asked != answered:
                answer: dict[str, Any] = {"asked": asked, "frames": _frames(main_thread)}
                host.put(path, json.dumps(answer))  # before torch is asked, which may take its time
                recorded = _recorded() if os.environ.get(contract.HANG_TIMEOUT) else {}
                host.put(path, json.dumps({**answer, "recorded": recorded}))
                answered = asked
        time.sleep(LOOK_S)


def _frames(thread: int) -> list[tuple[str, int, str]]:
    """File, line and function of each frame of a thread, the most recent call first."""
    frame = sys._current_frames().get(thread)
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < DEEPEST:
        found.append((frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    return found


def _recorded() -> dict[str, Any]:
    """How many collectives each process group has begun and done, by torch's flight recorder; NCCL and gloo
    have one each, and a group may use both (torch 2.11 on an H100, 2026-11-26)."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    found: dict[str, Any] = {}
    names = [name for name in ("_dump_nccl_trace_json", "_dump_fr_trace_json") if hasattr(c10d, name)]
    for number, name in enumerate(names):
        with contextlib.suppress(Exception):  # a private name of torch's: it may have changed
            for group, counts in _groups(json.loads(getattr(c10d, name)())).items():
                found[group + " (gloo)" * number] = counts
    return found


def _groups(recorder: dict[str, Any]) -> dict[str, Any]:
    named = {
        (str(one["process_group"][0]), int(one["collective_seq_id"])): str(one["profiling_name"])
        for one in recorder.get("entries") or ()
    }
    found: dict[str, Any] = {}
    for group, status in (recorder.get("pg_status") or {}).items():
        begun, done = (int(status[f"last_{what}_collective"]) for what in ("enqueued", "completed"))
        found[str(group)] = {"begun": begun, "done": done, "name": named.get((str(group), begun), "")}
    return found
