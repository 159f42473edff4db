"""This process's stdin, stdout and stderr as a command finds them: each may be closed, full, or read no more.

A closed one is the null device from then on, as whoever closed it wants to hear nothing. What stdout does not
take ends the command; what stderr does not take is not told, as what it is about goes on all the same.
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False  # as typing's, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TextIO

    from gputrain.cli.screen import Exit


_SILENT_S = 2.0
"""Longer, and a person wonders whether anything happens at all."""


class Unwritten(Exception):
    """Stdout did not take what was written; the cause says why."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Inside, all three are there, and stdout raises `Unwritten` where it cannot go on."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # its number is free: a file that came to it would be written to
            null = open(os.devnull, mode)  # noqa: SIM115  # until the process ends
            os.set_inheritable(null.fileno(), True)
            setattr(sys, name, null)
    out, err = _Guarded(sys.stdout, is_needed=True), _Guarded(sys.stderr, is_needed=False)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


@contextlib.contextmanager
def not_in_silence(whom: Callable[[], str]) -> Iterator[None]:
    """Inside, a person at a terminal who has read nothing for two seconds is told whose answer is awaited.

    Args:
        whom: asked then; empty where there is nothing to tell.
    """
    from gputrain.threads import Bell, aside, begin

    streams, over = (sys.stdout, sys.stderr), Bell()

    def tell() -> None:
        if over.wait(_SILENT_S):
            return
        if not any(getattr(one, "is_used", False) for one in streams) and (text := whom()):
            sys.stderr.write(f"waiting for {text}\n")
            sys.stderr.flush()

    if sys.stderr.isatty():
        begin(aside(tell, "gputrain tells for what it waits"))
    try:
        yield
    finally:
        over.ring()


def given_up(error: Unwritten) -> Exit:
    """Tell why, unless whoever read has seen enough."""
    from gputrain.cli.screen import Exit, tell_error
    from gputrain.errors import RequestError

    if isinstance(error.__cause__, BrokenPipeError):
        return Exit.OK
    fix = "write it where there is room; a job that was submitted goes on, and `gputrain jobs` lists it"
    tell_error(RequestError("the output could not be written", why=str(error), fix=fix), as_json=False)
    return Exit.REQUEST


class _Guarded:
    """A stream that goes to the null device once it fails, so that nothing fails at the process's end."""

    def __init__(self, stream: TextIO, *, is_needed: bool) -> None:
        self._stream, self._is_needed, self.is_used = stream, is_needed, False

    def write(self, text: str) -> int:
        self.is_used = True
        with self._told():
            try:
                self._stream.write(text)
            except UnicodeEncodeError as error:  # a stream of fewer letters than the text has
                self._stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._told():
            self._stream.flush()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
            if self._is_needed:
                raise Unwritten(error.strerror) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
