"""What a rank runs before the user's script, and behind it: records its exception, and sees to its end."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import io
import json
import os
import sys
import time
import traceback
import types

from . import store
from .ending import leave
from .stacks import offer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, NoReturn, Optional


def main() -> NoReturn:
    """Run ``sys.argv[1:]``, ``script.py args`` or ``-m module args``, as Python itself would, and exit."""
    faulthandler.enable()
    offer()
    store.hold()
    del sys.argv[0]
    code, failed, folder = 0, False, os.getcwd()
    try:
        if sys.argv[0] == "-m":
            _run_module()
        else:
            folder = os.path.dirname(os.path.realpath(sys.argv[0]))
            _run_script(sys.argv[0])
    except SystemExit as leaving:
        code = _code_of(leaving)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = 130
    except BaseException as error:  # noqa: BLE001  # the top of a rank: whatever it raised is the news
        _shorten(error)
        _write(_document(error, "".join(traceback.format_exception(type(error), error, error.__traceback__))))
        sys.excepthook(type(error), error, error.__traceback__)
        code, failed = 1, True
    # Outside the handlers: a traceback that is still held holds the open files of its frames.
    leave(code, folder, failed)


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
    _write(_document(leaving, None))
    return 1


def _shorten(error: BaseException) -> None:
    """Drop the frames of this file and of runpy from the front of the traceback."""
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if filename != __file__ and "runpy" not in filename:
            break
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace


def _document(error: BaseException, trace: Optional[str]) -> Dict[str, Any]:
    """The error document: what torchrun's @record writes, and beside it what we add."""
    return {
        "message": {
            "message": f"{type(error).__name__}: {error}"[:4000],
            "extraInfo": {"py_callstack": trace, "timestamp": str(int(time.time()))},
        },
        "gputrain": {
            "exception": _full_name(type(error)),
            "message": str(error)[:4000],
            "traceback": trace,
            "time": time.time(),
            "rank": os.environ.get("RANK"),
            "local_rank": os.environ.get("LOCAL_RANK"),
        },
    }


def _write(document: Dict[str, Any]) -> None:
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
