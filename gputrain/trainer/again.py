"""An ask of another process, asked again as it was: where that is one ask, two who do so make one job."""

from __future__ import annotations

from collections.abc import Sequence

from gputrain.backends.base import Request
from gputrain.errors import GputrainError
from gputrain.planning import Candidate
from gputrain.records import Record
from gputrain.spec import TrainingSpec
from gputrain.trainer.climb import Surroundings
from gputrain.trainer.staged import Staged, whole
from gputrain.trainer.ways import candidate_of


def again(
    around: Surroundings,
    staged: Staged,
    record: Record,
    spec: TrainingSpec,
    found: Sequence[Candidate],
    *,
    attempt: int,
) -> tuple[Candidate, Request] | None:
    """A record's latest ask, rendered from this process's own settings under the nonce that it has.

    None where its backend does not know one request from two, or where these settings would ask for
    something else.
    """
    last = record.last
    candidate = None if last is None else candidate_of(last, found)
    recorder = None if candidate is None else around.boards.recorder(candidate.backend)
    if last is None or candidate is None or recorder is None or not recorder.repeats:
        return None
    backend = around.backends[candidate.backend]
    try:
        bundle = staged.on(backend, recorder, record)
        if record.code.sha256 not in ("", bundle.sha256):
            return None
        request = whole(backend, spec, candidate, record.job_id, bundle, attempt=attempt, nonce=last.nonce)
        if request.names != last.names:
            return None
        staged.send(backend)
    except GputrainError:  # it cannot be asked from here: then it is waited for
        return None
    return candidate, request
