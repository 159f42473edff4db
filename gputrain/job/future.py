"""A job's result as a future, which waits in the thread that all share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from gputrain.job.result import Result
from gputrain.job.watcher import WATCHER, Watchable


class JobFuture(Future[Result]):
    """One caller's future of a job's result: cancelling it ends this caller's watching, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._drop: Callable[[], object] = lambda: None

    @classmethod
    def of(cls, job: Watchable, outcome: Callable[[], Result]) -> JobFuture:
        """The future; ``outcome`` gives the result of a job that has ended, or raises why there is none."""
        future = cls()

        def tell(error: Exception | None) -> None:
            if error is None and not job.state.is_terminal and not future.done():
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
            future._drop()

        if job.state.is_terminal:
            tell(None)
        else:
            future._drop = WATCHER.watch(job, tell)
        return future

    def cancel(self) -> bool:
        """Stop waiting for the job, which goes on."""
        self._drop()
        is_cancelled = super().cancel()
        if is_cancelled:  # else those who wait for several futures would never hear of it
            with suppress(InvalidStateError, RuntimeError):
                self.set_running_or_notify_cancel()
        return is_cancelled
