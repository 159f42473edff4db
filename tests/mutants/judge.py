"""Runs tests against the tree it stands in, a process for each run: requests and answers are lines of JSON.

What the tests import of others is imported once, before the first fork; what is ours is read anew by each.
"""

from __future__ import annotations

import compileall
import ctypes
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

_ROOT = f"{Path.cwd()}/"
_PRODUCT = f"{_ROOT}gputrain/"
_LONGEST_S = 90
"""A test that goes on for longer, though a quick one, has met a mutant that never ends."""
_BECOME_REAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


class Quick:
    """Leaves out what is slow, but for laws: all of them are called so."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [one for one in items if "slow" not in one.keywords or "/laws/" in str(one.path)]


class Trace:
    """Which functions of gputrain each test runs, and how long it takes; the parameters of a test are one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._tests: dict[str, tuple[float, set[str]]] = {}
        self._failed: set[str] = set()
        self._codes: set[Any] = set()

    def _note(self, frame: Any, _event: str, _argument: object) -> None:
        self._codes.add(frame.f_code)  # and no more: it gives no tracer for the lines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        self._codes.clear()
        began = time.monotonic()
        threading.settrace(self._note)
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            name = _function(item.nodeid)
            seconds, ran = self._tests.get(name, (0.0, set()))
            ran |= {
                f"{code.co_filename.removeprefix(_PRODUCT)}:{code.co_qualname}"
                for code in list(self._codes)
                if code.co_filename.startswith(_PRODUCT)
            }
            self._tests[name] = seconds + time.monotonic() - began, ran

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.add(_function(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        told = {
            name: [round(seconds, 3), sorted(ran)]
            for name, (seconds, ran) in self._tests.items()
            if name not in self._failed
        }
        Path(self._path).write_text(json.dumps({"tests": told, "failed": sorted(self._failed)}))


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
    plugins += [Trace(request["trace"])] if "trace" in request else []
    status = 70
    try:
        status = int(pytest.main([*words, *request["tests"]], plugins=plugins))
    finally:
        sys.stdout.flush()
        os._exit(status)


def _end_all() -> None:
    """End what a run left behind: orphans become this process's children."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in map(int, children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
