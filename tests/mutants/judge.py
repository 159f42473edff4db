"""Runs tests against the tree it stands in, a process for each run: requests and answers are lines of JSON.

What the tests import of others is imported once, before the first fork; what is ours is read anew by each.
"""

from __future__ import annotations

import compileall
import ctypes
import inspect
import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import THOROUGH

_ROOT = f"{Path.cwd()}/"
_PRODUCT = f"{_ROOT}gputrain/"
_LONGEST_S = 90
"""A test that goes on for longer, though a quick one, has met a mutant that never ends."""
_BECOME_REAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_NOTES = Path(_ROOT, "notes")
_NOTING = f"""
import os, sys, threading
if "pytest" not in sys.modules:
    _noted = set()
    def _note(frame, _event, _argument):
        code = frame.f_code
        if code not in _noted:
            _noted.add(code)
            if code.co_flags & 1 and code.co_filename.startswith({_PRODUCT!r}):
                name = code.co_filename[{len(_PRODUCT)}:] + ":" + code.co_qualname
                with open({str(_NOTES)!r} + "/" + str(os.getpid()), "a") as file:
                    file.write(name + "\\n")
    threading.settrace(_note)
    sys.settrace(_note)
"""
"""What gputrain says at its end while tests are traced: a process that they start notes what it runs, too."""


class Quick:
    """Leaves out what is slow, but for laws, all of which are called so, and what goes through each step."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [one for one in items if "slow" not in one.keywords or _judges_too(str(one.path))]


def _judges_too(path: str) -> bool:
    return "/laws/" in path or path.endswith(THOROUGH)


class Trace:
    """Which functions of gputrain each test runs, how long it takes, and how long it computes.

    The parameters of a test are one. Bodies of modules and classes are no functions: they run once, for all.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._tests: dict[str, tuple[float, float, set[str]]] = {}
        self._failed: set[str] = set()
        self._codes: set[Any] = set()

    def _note(self, frame: Any, _event: str, _argument: object) -> None:
        self._codes.add(frame.f_code)  # and no more: it gives no tracer for the lines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        self._codes.clear()
        began, computed = time.monotonic(), _computed_s()
        threading.settrace(self._note)
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            name = _function(item.nodeid)
            took_s, computed_s, ran = self._tests.get(name, (0.0, 0.0, set()))
            ran |= {
                f"{code.co_filename.removeprefix(_PRODUCT)}:{code.co_qualname}"
                for code in list(self._codes)
                if code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(_PRODUCT)
            }
            ran |= _noted()
            took_s += time.monotonic() - began
            self._tests[name] = took_s, computed_s + _computed_s() - computed, ran

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.add(_function(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        told = {
            name: [round(took_s, 3), round(computed_s, 3), sorted(ran)]
            for name, (took_s, computed_s, ran) in self._tests.items()
            if name not in self._failed
        }
        Path(self._path).write_text(json.dumps({"tests": told, "failed": sorted(self._failed)}))


def _computed_s() -> float:
    """What this process and its children that ended have had of the cores, however busy they were."""
    return sum(os.times()[:4])


def _noted() -> set[str]:
    """What the processes of a test have run."""
    ran: set[str] = set()
    for file in _NOTES.iterdir():
        ran.update(file.read_text().split())
        file.unlink()
    return ran


class First:
    """Writes down the first test that fails, or the file that cannot be read."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self._path.exists():
            self._path.write_text(_function(report.nodeid))

    pytest_collectreport = pytest_runtest_logreport


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def main() -> None:
    """Serve until the requests end."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(_BECOME_REAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            _load(request["load"])
            answer: object = None
        else:
            answer = _judged(request)
        print(json.dumps(answer), file=answers, flush=True)


def _load(paths: list[str]) -> None:
    """Import what the tests import, and forget of it what is ours; from here on no bytecode is kept.

    What is kept is of the tree without a mutant: a mutant of its second and its length would be taken for it.
    """
    compileall.compile_dir("gputrain", quiet=2)
    pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *paths])
    for name, module in list(sys.modules.items()):
        is_ours = (getattr(module, "__file__", None) or "").startswith((_PRODUCT, f"{_ROOT}tests/"))
        if is_ours and name != "__main__":
            del sys.modules[name]
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def _judged(request: dict[str, Any]) -> int | None:
    """pytest's exit status; None where it did not end in time."""
    child = os.fork()
    if not child:
        _run(request)
    ends = time.monotonic() + request["patience_s"]
    try:
        while time.monotonic() < ends:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        return None
    finally:
        _end_all()


def _run(request: dict[str, Any]) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = ["-x"] if "trace" not in request else []
    words += ["-q", "--no-header", "-p", "no:cacheprovider", f"--basetemp={request['scratch']}"]
    words += [f"--timeout={_LONGEST_S}"]
    plugins: list[object] = [Quick()]
    if "trace" in request:
        _have_all_note()
        plugins.append(Trace(request["trace"]))
    else:
        plugins.append(First(request["first"]))
    status = 70
    try:
        status = int(pytest.main([*words, *request["tests"]], plugins=plugins))
    finally:
        sys.stdout.flush()
        os._exit(status)


def _have_all_note() -> None:
    shutil.rmtree(_NOTES, ignore_errors=True)
    _NOTES.mkdir()
    with Path(_PRODUCT, "__init__.py").open("a") as file:
        file.write(_NOTING)


def _end_all() -> None:
    """End what a run left behind: orphans become this process's children."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
