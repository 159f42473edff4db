"""How a rank ends: as Python ends, except where taking the interpreter apart aborts a run that has finished.

A thread of gloo that lets go of a tensor asks for the interpreter's lock; once the interpreter is finalizing,
Python unwinds such a thread, which C++ answers with abort (exit 134; torch 2.13, Python < 3.14). So a rank
with process groups does itself what Python does first: it joins threads, runs the atexit handlers, closes
every file that the script left open, and leaves by os._exit. So does one with daemon threads: they hold the
script's names beyond Python's end, so that Python loses what its files hold back.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import io
import os
import signal
import sys
import threading
import traceback
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, NoReturn, Set

FAILED_EXIT_S = 20.0
"""How long the end of a rank that failed may take in all; its peers wait for it to go."""

FAILED_LOCKED_S = 5.0
"""How much longer it may take where native code never gives the interpreter's lock back."""

FAILED_THREADS_S = 5.0
"""How long of it its threads may take: one that feeds a queue for ever never ends by itself."""

_IO = io.IOBase.__mro__[1]
"""What files descend from. By `__mro__`, since isinstance runs code of lazy proxies."""

_WITH_TRAILERS = {
    "gzip": "GzipFile",
    "bz2": "BZ2File",
    "lzma": "LZMAFile",
    "zipfile": "ZipFile",
    "tarfile": "TarFile",
    "h5py._hl.files": "File",
}
"""Files that are worth nothing before they are closed, by their module: flushing writes no directory."""


def leave(code: int, folder: str, failed: bool = False) -> NoReturn:
    """End the process with this code; `folder` is where the script and its own modules lie."""
    with contextlib.suppress(ValueError):  # as when a thread called sys.exit
        # A stop that comes now is too late to change how it ended.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    is_pythons = not (_would_abort() or any(thread.daemon for thread in threading.enumerate()))
    if failed:
        _guard(code, folder)
    if is_pythons:
        sys.exit(code)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:  # noqa: BLE001  # an executor's end that fails must not keep the process
        traceback.print_exc()
    _end(code, folder)


def _guard(code: int, folder: str) -> None:
    """Bound the wait for threads, then all of the end, even where the lock is never given back."""
    # Only then: it reads the frames of all threads from outside, which may crash where one of them runs.
    with contextlib.suppress(RuntimeError):  # where no thread can start, its own among them
        faulthandler.dump_traceback_later(FAILED_EXIT_S + FAILED_LOCKED_S, exit=True, file=2)
        _later(FAILED_EXIT_S, _give_up, code)
        impatience = _later(FAILED_THREADS_S, _end, code, folder)
        atexit.register(_call_off, impatience)  # the last that is registered is the first that runs


def _later(after_s: float, do: Callable[..., object], *what: object) -> threading.Timer:
    timer = threading.Timer(after_s, do, what)
    timer.daemon = True
    timer.start()
    return timer


def _give_up(code: int) -> NoReturn:
    """Say where each thread stands, and leave."""
    try:
        for frame in sys._current_frames().values():  # in Python: faulthandler meets threads of C++ that go
            traceback.print_stack(frame)
    finally:
        os._exit(code)


def _call_off(impatience: threading.Timer) -> None:
    """And wait for its thread: to end that, Python loads a library, and aborts if no descriptor is left."""
    impatience.cancel()
    if threading.current_thread() is not impatience:
        impatience.join()


def _would_abort() -> bool:
    """Whether threads of a process group are here; gloo's outlive the group."""
    torch_distributed = sys.modules.get("torch.distributed")
    if torch_distributed is None or not torch_distributed.is_available():
        return False
    if torch_distributed.is_initialized():
        return True
    try:
        return any("gloo" in _thread_name(thread) for thread in os.listdir("/proc/self/task"))
    except OSError:  # nobody tells the names of threads here, as on macOS: they may be there
        return True


def _thread_name(thread: str) -> str:
    with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as file:
        return file.read()
    return ""


def _end(code: int, folder: str) -> NoReturn:
    try:
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  # as Python: told, and of no consequence
        traceback.print_exc()
    try:
        close_files(folder)
    finally:
        os._exit(code)


def close_files(folder: str) -> None:
    """Write out and close what the script left open, in Python and in C libraries."""
    # Threads that go on find their names gone; what they say of it would only confuse.
    threading.excepthook = lambda *_: None
    # First of all flush: of a file in a cycle, the collector may close the inner half before the outer.
    _flush()
    _drop_names(folder)
    for kind in list(_types_with_trailers()):
        with_trailers: List[Any] = [one for one in gc.get_objects() if type(one) is kind]
        for one in with_trailers:
            with contextlib.suppress(Exception):
                one.close()
    _flush()
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).fflush(None)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _flush() -> None:
    is_file: Dict[type, bool] = {}
    for one in gc.get_objects():
        kind = type(one)
        if kind not in is_file:
            is_file[kind] = _IO in kind.__mro__
        if is_file[kind]:
            with contextlib.suppress(Exception):
                one.flush()


def _drop_names(folder: str) -> None:
    """Let go of the script's modules as Python does: whole, and name by name where something holds on."""
    spaces: Set[int] = set()
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and (name == "__main__" or _is_below(module, folder)):
            spaces.add(id(vars(module)))
            sys.modules[name] = types.ModuleType(name)
    del module
    gc.collect()
    for space in [one for one in gc.get_objects() if type(one) is dict and id(one) in spaces]:
        _clear(space)
    gc.collect()


def _is_below(module: types.ModuleType, folder: str) -> bool:
    """Whether a module is the script's own; the libraries of a virtual environment beside it are not."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or not path.startswith(os.path.join(folder, "")):
        return False
    installed = ("site-packages" in path) or ("dist-packages" in path)
    standard = path.startswith(os.path.join(os.path.dirname(os.__file__), ""))
    ours = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
    return not (installed or standard or path.startswith(ours))


def _clear(space: Dict[str, Any]) -> None:
    """Python's order: names with one underscore first, then the others, never the builtins."""
    names = [name for name in space if isinstance(name, str) and name != "__builtins__"]
    for name in sorted(names, key=lambda name: not (name[:1] == "_" and name[1:2] != "_")):
        space[name] = None


def _types_with_trailers() -> Iterator[Any]:
    for module, name in _WITH_TRAILERS.items():
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            yield kind
