"""What stands around each call of a backend: what nobody foresaw becomes an error that names the backend."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Iterator

from gputrain import fields
from gputrain.backends.dues import error_due
from gputrain.errors import GputrainError, ProviderError

ANYTHING = (Exception, SystemExit)
"""What somebody else's code may raise: one backend that ends the process would end what all others do."""


class UnforeseenError(ProviderError):
    """A backend raised what is no error of ours, or answered what is not due: nobody knows what it did."""


@contextlib.contextmanager
def foreseen(
    name: str, action: str, *, fix: str = "", foreign: tuple[type[BaseException], ...] = ANYTHING
) -> Iterator[None]:
    """Has what nobody foresaw of a backend name it, where several are asked and one must not hide the others.

    What a handler of signals raises meanwhile is none of the backend's, and stays what it is.

    Raises:
        UnforeseenError: whatever was raised that is no error of ours, or one that says what it cannot mean;
            ``fix`` says what else to do then.
    """
    try:
        with _errors_due():
            yield
    except GputrainError:
        raise
    except foreign as error:  # of somebody else's code
        if _is_a_handlers(error):
            raise
        what = f"could not {action} of the backend {name!r}"
        mend = f"mend what it says, or tell whoever wrote it{fix and '; '}{fix}"
        raise UnforeseenError(what, why=said(error), fix=mend) from error


@contextlib.contextmanager
def _errors_due() -> Iterator[None]:
    try:
        yield
    except GputrainError as error:
        error_due(error)
        raise


def of(backend: object, name: str, action: str, *, fix: str = "") -> contextlib.AbstractContextManager[None]:
    """As `foreseen`, of a backend or recorder that is not ours: what ours raise is to be mended here.

    It hides no other, so what ends the process ends it.
    """
    if is_ours(backend):
        return contextlib.nullcontext()
    return foreseen(name, action, fix=fix, foreign=(Exception,))


def is_ours(backend: object) -> bool:
    """Whether it is of this package."""
    return type(backend).__module__.partition(".")[0] == "gputrain"


def _is_a_handlers(error: BaseException) -> bool:
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def said(error: BaseException) -> str:
    """What somebody else's error says, and of which kind it is."""
    return f"{type(error).__name__}: {fields.said(error)}"
