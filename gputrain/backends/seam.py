"""What is asked of a backend, anybody's: what nobody foresaw becomes an error that names the backend."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Iterator, Sequence

from gputrain.backends.abilities import FindsTheEnd
from gputrain.backends.base import (
    Backend,
    Bundle,
    CleansUp,
    Completes,
    JobRef,
    LogPage,
    Orphan,
    Request,
    SendsCode,
    Start,
    Tidies,
)
from gputrain.errors import GputrainError, ProviderError
from gputrain.fields import instance
from gputrain.lifecycle import Observation
from gputrain.spec import TrainingSpec


class UnforeseenError(ProviderError):
    """A backend raised what is no error of ours: nobody knows what it has done."""


@contextlib.contextmanager
def foreseen(name: str, action: str, *, fix: str = "") -> Iterator[None]:
    """Has what nobody foresaw of a backend name it, where several are asked and one must not hide the others.

    What a handler of signals raises meanwhile is none of the backend's, and stays what it is.

    Raises:
        UnforeseenError: whatever was raised that is no error of ours; ``fix`` says what else to do then.
    """
    try:
        yield
    except GputrainError:
        raise
    except Exception as error:  # of somebody else's code
        if _is_a_handlers(error):
            raise
        what = f"could not {action} of the backend {name!r}"
        mend = f"mend what it says, or tell whoever wrote it{fix and '; '}{fix}"
        raise UnforeseenError(what, why=said(error), fix=mend) from error


@contextlib.contextmanager
def of(backend: Backend, name: str, action: str, *, fix: str = "") -> Iterator[None]:
    """As `foreseen`, of a backend that is not ours: what ours raise is to be mended here."""
    is_ours = type(backend).__module__.partition(".")[0] == "gputrain"
    with contextlib.nullcontext() if is_ours else foreseen(name, action, fix=fix):
        yield


def _is_a_handlers(error: Exception) -> bool:
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def said(error: BaseException) -> str:
    """What somebody else's error says, and of which kind it is."""
    return f"{type(error).__name__}: {error}"


def find(backend: Backend, name: str) -> tuple[JobRef, ...]:
    """Errors, here and below, as of the backend's own call."""
    with of(backend, backend.name, "list the jobs"):
        return tuple(map(instance(JobRef), backend.find(name=name)))


def stage(backend: Backend, spec: TrainingSpec, job_id: str) -> Bundle:
    """The code, and where the job will find it."""
    with of(backend, backend.name, "stage the code"):
        return backend.stage(spec, job_id)


def render(backend: Backend, start: Start) -> Request:
    """The draft of a request."""
    with of(backend, backend.name, "render a request"):
        return backend.render(start)


def complete(backend: Backend, draft: Request) -> Request:
    """The request as it is sent; the draft itself, of a backend that has nothing to add."""
    with of(backend, backend.name, "complete a request"):
        return backend.complete(draft) if isinstance(backend, Completes) else draft


def send(backend: Backend, bundle: Bundle) -> None:
    """See that the code is where the jobs find it, where it is put there for them."""
    with of(backend, backend.name, "send the code"):
        if isinstance(backend, SendsCode):
            backend.send(bundle)


def create(backend: Backend, request: Request) -> JobRef:
    """The one write. After an UnforeseenError the job may be there."""
    fix = f"it may be there: end it with gputrain.attach({request.ref.uri!r}).cancel()"
    with of(backend, backend.name, "create a job", fix=fix):
        return backend.create(request)


def observe(backend: Backend, ref: JobRef) -> Observation:
    """One look."""
    with of(backend, ref.backend, "look at a job"):
        return backend.observe(ref)


def logs(backend: Backend, ref: JobRef, cursor: str) -> LogPage:
    """A page of the log."""
    with of(backend, ref.backend, "read the log of a job"):
        return backend.logs(ref, cursor)


def cursor_near_end(backend: Backend, ref: JobRef, lines: int) -> str:
    """A cursor after which about so many lines are left; empty: the beginning."""
    with of(backend, ref.backend, "read the log of a job"):
        return backend.cursor_near_end(ref, lines) if isinstance(backend, FindsTheEnd) else ""


def cancel(backend: Backend, ref: JobRef) -> None:
    """Ask the job to stop."""
    with of(backend, ref.backend, "cancel a job"):
        backend.cancel(ref)


def tidy(backend: Backend, ref: JobRef, seen: Observation) -> None:
    """End what cannot go on of a job, where something may be left of it."""
    with of(backend, ref.backend, "tidy up after a job"):
        if isinstance(backend, Tidies):
            backend.tidy(ref, seen)


def orphans(backend: Backend) -> tuple[Orphan, ...]:
    """What has no living job; nothing, where nothing is ever left."""
    with of(backend, backend.name, "look for the orphans"):
        return tuple(backend.orphans()) if isinstance(backend, CleansUp) else ()


def clean_up(backend: Backend, only: Sequence[Orphan] | None) -> tuple[Orphan, ...]:
    """Remove the orphans; those that were asked to go."""
    with of(backend, backend.name, "remove the orphans"):
        return tuple(backend.clean_up(only)) if isinstance(backend, CleansUp) else ()
