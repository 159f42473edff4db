"""A job's end as a future, and its changes told to a listener: both by the thread that all handles share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from types import TracebackType

from gputrain.job.events import Changes, Listener
from gputrain.job.result import Result
from gputrain.job.watcher import WATCHER, Watchable


class JobFuture(Future[Result]):
    """One caller's future of a job's result: cancelling it ends this caller's watching, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._drop: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, job: Watchable, outcome: Callable[[], Result]) -> JobFuture:
        """The future; ``outcome`` gives the result of a job that has ended, or raises why there is none."""
        future = cls()

        def tell(error: Exception | None) -> None:
            if error is None and not job.state.is_terminal:
                return
            with suppress(InvalidStateError):  # its owner has just cancelled it
                try:
                    if error is not None:
                        raise error
                    future.set_result(outcome())
                except InvalidStateError:
                    raise
                except Exception as why:  # noqa: BLE001  # whatever it is, whoever waits is told
                    future.set_exception(why)

        if job.state.is_terminal:
            tell(None)
        else:
            future._drop = WATCHER.watch(job, tell)
        return future

    def cancel(self) -> bool:
        """StopEvent waiting for the job, which goes on."""
        self._drop()
        is_cancelled = super().cancel()
        if is_cancelled:  # else those who wait for several futures would never hear of it
            with suppress(InvalidStateError, RuntimeError):
                self.set_running_or_notify_cancel()
        return is_cancelled


class Watching:
    """A listener that is told of changes; `close`, or the end of a ``with``, ends the telling."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop

    @classmethod
    def of(cls, job: Watchable, changes: Changes, listener: Listener) -> Watching:
        """Tell a listener of one job's changes, until it ends."""

        tell = changes.telling(listener)
        return cls(WATCHER.watch(job, lambda _error: tell()))

    def close(self) -> None:
        """Tell nothing more."""
        self._drop()

    def __enter__(self) -> Watching:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
