"""How a job ended that a person has watched: what stands right above, in its log, is not said again."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from gputrain.errors import GputrainError, JobFailedError
from gputrain.job import Job
from gputrain.view import place_of


def told(job: Job, progress: str | None) -> None:
    """Raise as `Job.result` does; without the traceback, or the last lines, that the screen still shows.

    Args:
        progress: how the job was watched, as `Job.wait` takes it.
    """
    if place_of(progress) == "none":  # nothing stands above
        job.result()
        return
    try:
        job.result()
    except JobFailedError as error:
        words = error.traceback.splitlines() or list(error.last_lines)
        if not words or not _is_above(job, error.rank, words):
            raise
        fix = error.fix.replace("the traceback below", "the traceback above")
        fix = fix.replace("look at the last lines;", "look at the last lines above;")
        facts = {"uri": error.uri, "rank": error.rank, "node_rank": error.node_rank, "kind": error.kind}
        raise JobFailedError(error.what, why=error.why, fix=fix, **facts) from None


def _is_above(job: Job, rank: int | None, words: Sequence[str]) -> bool:
    """Whether the words are among the lines of a rank that a screen holds."""
    try:
        shown = list(job.logs(tail=shutil.get_terminal_size().lines))
    except GputrainError:  # then it is said once more
        return False
    lines = [line.message.rstrip() for line in shown if line.rank == rank]
    sought = [word.rstrip() for word in words]
    return any(lines[at : at + len(sought)] == sought for at in range(len(lines)))
