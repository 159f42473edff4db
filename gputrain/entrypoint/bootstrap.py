"""What a rank runs before the user's script: records its exception, and ends the process without a teardown.

torch 2.13 with gloo aborts 10 to 20 % of *finished* runs while the interpreter is torn down (exit 134, which
Vertex AI takes for a transient fault and runs again). So the rank does what Python does at its end, joining
threads, atexit handlers, flushing, and then leaves with os._exit.
"""

from __future__ import annotations

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, NoReturn

FAILED_EXIT_S = 20.0
"""How long the atexit handlers of a rank that failed may take; its peers wait for it to go."""


def main() -> NoReturn:
    """Run ``sys.argv[1:]``, ``script.py args`` or ``-m module args``, as Python itself would, and exit."""
    faulthandler.enable()
    del sys.argv[0]
    try:
        if sys.argv[0] == "-m":
            _run_module()
        else:
            _run_script(sys.argv[0])
    except SystemExit as leaving:
        _leave(_code_of(leaving))
    except KeyboardInterrupt:
        traceback.print_exc()
        _leave(130)
    except BaseException as error:  # noqa: BLE001  # the top of a rank: whatever it raised is the news
        _shorten(error)
        _record(error)
        _guard_exit()
        sys.excepthook(type(error), error, error.__traceback__)
        _leave(1, joins_threads=False)
    _leave(0)


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
        sys.path[0] = first
    if os.path.isfile(root):
        sys.path.insert(1, root)
    elif root not in sys.path:
        sys.path.append(root)


def _code_of(leaving: SystemExit) -> int:
    code = leaving.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{code}\n")
    return 1


def _shorten(error: BaseException) -> None:
    """Drop the frames of this file and of runpy from the front of the traceback."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace


def _is_ours(filename: str) -> bool:
    return filename == __file__ or "runpy" in filename


def _record(error: BaseException) -> None:
    """Write the error document: what torchrun's @record writes, and beside it what we add."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    document = {
        "message": {
            "message": f"{type(error).__name__}: {error}"[:4000],
            "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))},
        },
        "gputrain": {
            "exception": _full_name(type(error)),
            "message": str(error)[:4000],
            "traceback": text,
            "time": time.time(),
            "rank": os.environ.get("RANK"),
            "local_rank": os.environ.get("LOCAL_RANK"),
        },
    }
    for path in _error_files():
        with contextlib.suppress(OSError):  # a rank whose disk is full still has to end with its own code
            with open(path + "-new", "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(document, file)
            os.replace(path + "-new", path)


def _error_files() -> List[str]:
    """Where torchrun looks and where our agent looks: the same, unless torchrun itself stands in between."""
    theirs, ours = os.environ.get("TORCHELASTIC_ERROR_FILE"), os.environ.get("GPUTRAIN_ERROR_FILE")
    if ours and ours != theirs:
        ours = f"{ours}.{os.environ.get('LOCAL_RANK')}"
    return list(filter(None, {theirs, ours}))


def _full_name(kind: type) -> str:
    return (
        kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
    )


def _guard_exit() -> None:
    guard = threading.Timer(FAILED_EXIT_S, os._exit, [1])
    guard.daemon = True
    guard.start()


def _leave(code: int, joins_threads: bool = True) -> NoReturn:
    """End as the interpreter would, up to the point where it would take itself apart."""
    with contextlib.suppress(ValueError):  # as when a thread called sys.exit
        signal.signal(
            signal.SIGTERM, signal.SIG_IGN
        )  # a stop that comes now is too late to change how it ended
    try:
        if joins_threads:
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except SystemExit as leaving:
        code = _code_of(leaving)
    except BaseException:  # noqa: BLE001  # an atexit handler that fails must not keep the process
        traceback.print_exc()
    for stream in _streams():
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _streams() -> List[io.TextIOBase]:
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None]  # type: ignore[misc]
