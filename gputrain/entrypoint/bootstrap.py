"""What a rank runs before the user's script, and behind it: records its exception, and sees to its end.

Before: ranks that meet on loopback meet in a store that listens there alone; torch itself would listen on all
addresses. Who reaches the store tells ranks where to connect, and what then comes there is unpickled: on a
machine with a network, a stranger's code. torch takes a socket that is bound already.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import functools
import importlib.util
import io
import json
import os
import socket
import sys
import time
import traceback
import types

from . import host
from .answers import offer
from .ending import leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, NoReturn, Optional


def main() -> NoReturn:
    """Run ``sys.argv[1:]``, ``script.py args`` or ``-m module args``, as Python itself would, and exit."""
    faulthandler.enable()
    offer()
    hold_store()
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
        _show(error)
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
        sys.path.insert(0, first)
    if os.path.isfile(root):
        sys.path.insert(1, root)
    elif root not in sys.path:
        sys.path.append(root)


def _code_of(leaving: SystemExit) -> int:
    code = leaving.code
    if code is None:
        return 0
    if isinstance(code, int):  # as Python: what is no C long is -1
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 255
    with contextlib.suppress(BaseException):
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


def _show(error: BaseException) -> None:
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001  # the rank is still to leave in order
        with contextlib.suppress(Exception):
            traceback.print_exc()
            sys.__excepthook__(type(error), error, error.__traceback__)


def _document(error: BaseException, trace: Optional[str]) -> Dict[str, Any]:
    """What torchrun's @record writes, and beside it what we add."""
    said = _said(error)[:4000]
    return {
        "message": {
            "message": f"{type(error).__name__}: {said}"[:4000],
            "extraInfo": {"py_callstack": trace, "timestamp": str(int(time.time()))},
        },
        "gputrain": {
            "exception": _full_name(type(error)),
            "message": said,
            "traceback": trace,
            "time": time.time(),
            "rank": os.environ.get("RANK"),
            "local_rank": os.environ.get("LOCAL_RANK"),
        },
    }


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  # code of the script's; Python itself says this of it
        return "<exception str() failed>"


def _write(document: Dict[str, Any]) -> None:
    for path in _error_files():
        with contextlib.suppress(OSError):  # a rank whose disk is full still has to end with its own code
            host.put(path, json.dumps(document))


def _error_files() -> List[str]:
    """Where torchrun and our agent look: at the same, unless torchrun stands in between."""
    theirs, ours = os.environ.get("TORCHELASTIC_ERROR_FILE"), os.environ.get("GPUTRAIN_ERROR_FILE")
    if ours and ours != theirs:
        ours = f"{ours}.{os.environ.get('LOCAL_RANK')}"
    return list(filter(None, {theirs, ours}))


def _full_name(kind: type) -> str:
    room = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return room + kind.__name__


_MAKER = "torch.distributed.rendezvous"
"""It makes the store of ``env://`` and ``tcp://``, and looks ``TCPStore`` up in itself."""


def hold_store() -> None:
    """See to it that rank 0's store, once torch makes one, listens at ``MASTER_ADDR`` alone."""
    if os.environ.get("RANK") == "0" and os.environ.get("MASTER_ADDR", "").startswith("127."):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Steps aside when its module is looked for, and changes one name in it once it has run."""

    def find_spec(self, name: str, *_: object) -> Any:
        if name != _MAKER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(_run_maker, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


def _run_maker(run: Callable[[Any], None], module: Any) -> None:
    run(module)
    if hasattr(module, "TCPStore"):
        module.TCPStore = functools.partial(_store, module.TCPStore)


def _store(make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Torch's own where it is none of rank 0's, has a server already, or takes no socket."""
    if options.get("is_master") and options.get("host_name") == os.environ.get("MASTER_ADDR"):
        try:
            return make(*args, **options, master_listen_fd=_bound(options["host_name"], options["port"]))
        except (OSError, TypeError):
            pass
    return make(*args, **options)


def _bound(address: str, port: int) -> int:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        return sock.detach()
