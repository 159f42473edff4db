"""What a climb works with: the trainer around it, the code, and an ask of another process asked again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from gputrain.backends import seam
from gputrain.backends.abilities import Recorder
from gputrain.backends.base import Backend, Bundle, JobRef, Request, SendsCode, Start
from gputrain.errors import GputrainError, RequestError, TransientError
from gputrain.fields import refused
from gputrain.gcp.registry import same_image
from gputrain.planning import Attempt, Blocks, Candidate, Ledger
from gputrain.records import Record
from gputrain.spec import TrainingSpec
from gputrain.threads import new_lock
from gputrain.times import Since
from gputrain.trainer.boards import Boards
from gputrain.trainer.choice import check_own
from gputrain.trainer.ways import candidate_of

REPEATABLE_S = 3000.0
"""How old an ask may be that is repeated: of a service that knows one request from two for some time only.

Source: at least an hour for Google's, by AIP-155; Compute Engine itself publishes nothing, read 2026-11-20.
"""


class Memory:
    """What the submits of one trainer learn from each other: where there was no room. Shared by threads."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._blocks = Blocks()
        self.put_off: dict[str, tuple[int, float] | None] = {}
        """When the records of asks in doubt were first met, by the ids of jobs that are come back to."""

    @property
    def blocks(self) -> Blocks:
        """The places that come last for now."""
        return self._blocks

    def learn(self, attempt: Attempt) -> None:
        """Take in one answer."""
        with self._lock:
            self._blocks = self._blocks.after(attempt)


@attrs.frozen(kw_only=True)
class Placed:
    """Where the job is, and how it came there."""

    ref: JobRef
    backend: Backend
    candidate: Candidate | None
    """None for a job that was found, where several candidates could be it."""
    attempts: Ledger


@attrs.define(kw_only=True, eq=False)
class Surroundings:
    """What a climb needs of its trainer."""

    backends: Mapping[str, Backend]
    boards: Boards
    memory: Memory
    read_anew: Callable[[Sequence[Candidate]], tuple[Candidate, ...]]
    """The candidates with facts of now, ranked."""
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    monotonic: Callable[[], float] = time.monotonic
    """A clock that nobody sets, in seconds."""
    rest: Callable[[float], None] | None = None
    """How to wait while nothing is being made; as ``sleep`` unless somebody may want to stop it."""
    waits_for_others: bool = True
    """Whether a job that another process may be asking for is waited for; else StoppedError names it."""

    def steady(self) -> Surroundings:
        """The same, with a date that nobody sets back: whoever waits by it would wait on."""
        date, since = self.now(), self.since()
        return attrs.evolve(self, now=lambda: date + timedelta(seconds=since.seconds))

    def since(self) -> Since:
        """How long ago this was asked, by whichever clock says longer."""
        return Since(lambda: self.now().timestamp(), self.monotonic)

    def wait(self, seconds: float) -> None:
        """Wait for room, or for another process. Raises StoppedError where somebody wants it to end."""
        (self.rest or self.sleep)(seconds)


def whole(backend: Backend, start: Start) -> Request:
    """The request as it is sent: the backend's draft, completed where it completes. Nothing is changed.

    Raises:
        SpecError: it would make a job by whose name another is looked for.
    """
    draft = seam.render(backend, start)
    check_own(backend, "request.ref.backend", draft.ref.backend)
    if JobRef.parse(draft.ref.uri) != draft.ref:
        allowed, fix = "a place, where a project is named", "tell whoever wrote the backend"
        raise refused("request.ref.place", draft.ref.place, allowed, fix, what=f"{draft.ref} is no name")
    return seam.complete(backend, draft)


class Staged:
    """Stages code once for each backend: from its folder where it was submitted, by its hash anywhere else.

    Args:
        job_id: whose code.
        spec: as it was submitted; None in a process that took the job up by its name.
    """

    def __init__(self, job_id: str, spec: TrainingSpec | None = None) -> None:
        self._job_id = job_id
        self._spec = spec
        self._bundles: dict[str, Bundle] = {}
        self._sent: tuple[str, ...] = ()  # an empty one takes no memory
        self._sha256 = ""

    def on(self, backend: Backend, recorder: Recorder | None, record: Record | None) -> Bundle:
        """The bundle for a backend.

        Raises:
            SpecError: the entry is not there, or something in its folder cannot travel.
            RequestError: this process has no code to send, and the backend's place for code has none of it.
        """
        if backend.name not in self._bundles:
            self._bundles[backend.name] = self._made(backend, recorder, record)
        return self._bundles[backend.name]

    def send(self, backend: Backend) -> None:
        """See that the bundle is where the backend's jobs fetch it; once, and then let its content go.

        Raises:
            RequestError, AccessError: it cannot be sent, or was to be there and is not.
        """
        name = backend.name
        if isinstance(backend, SendsCode) and name not in self._sent:
            seam.send(backend, self._bundles[name])
            self._bundles[name] = attrs.evolve(self._bundles[name], content=b"")
            self._sent += (name,)

    def is_at_hand(self, backend: Backend, recorder: Recorder | None, record: Record) -> bool:
        """Whether a backend's jobs would find the code, as far as a look tells that sends nothing."""
        try:
            if not self.on(backend, recorder, record).content:
                self.send(backend)
        except TransientError:  # nobody knows; whoever acts asks again
            return True
        except GputrainError:
            return False
        return True

    def _made(self, backend: Backend, recorder: Recorder | None, record: Record | None) -> Bundle:
        if self._spec is not None:
            bundle = seam.stage(backend, self._spec, self._job_id)
            if not self._sha256 or not bundle.sha256 or bundle.sha256 == self._sha256:
                self._sha256 = bundle.sha256 or self._sha256
                return bundle  # else its folder has changed since, and what was submitted runs on
        if record is not None and recorder is not None:
            found = seam.code(recorder, backend.name, record.code)
            if found is not None:
                return attrs.evolve(found, argv=_argv(record))
        raise RequestError(
            f"the code of {self._job_id} is not where {backend.name} could find it",
            why="its folder has changed since it was submitted" if self._spec is not None else "",
            fix="wait for the job in the process that submitted it, or submit it again under the same key",
            try_elsewhere=True,
        )


def _argv(record: Record) -> tuple[str, ...]:
    """What a record's spec runs: what is told beside it says only where the script lies in the code.

    Raises:
        RequestError: it tells of another script, so somebody has written it who may not.
    """
    spec = record.training_spec
    if spec.command is not None:
        return spec.command
    if spec.module is not None:
        return ("-m", spec.module, *spec.args)
    inside = next(iter(record.code.argv), "")
    if spec.script is None or re.split(r"[\\/]", spec.script)[-1] != inside.rpartition("/")[2]:
        raise RequestError(
            f"the record of {record.job_id} names another program than its spec",
            why=f"{inside[:40]!r} instead of {spec.title}",
            fix="find out who can write to the bucket",
        )
    return (inside, *spec.args)


def as_before(spec: TrainingSpec, record: Record) -> TrainingSpec:
    """The spec with the image that the latest ask ran, by digest: today its tag may mean another."""
    image = record.last.image if record.last is not None else ""
    return spec.replace(image=image) if image and same_image(spec.image_name or "", image) else spec


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

    None where its backend does not know one request from two, or not any more, or where these settings would
    ask for something else.
    """
    last = record.last
    candidate = None if last is None else candidate_of(last, found)
    recorder = None if candidate is None else around.boards.recorder(candidate.backend)
    if last is None or candidate is None or recorder is None or not recorder.repeats:
        return None
    if recorder.turn_s and record.now - last.at > REPEATABLE_S:
        return None
    backend = around.backends[candidate.backend]
    try:
        bundle = staged.on(backend, recorder, record)
        if record.code.sha256 not in ("", bundle.sha256):
            return None
        start = Start(
            spec=as_before(spec, record), candidate=candidate, job_id=record.job_id, bundle=bundle,
            attempt=attempt, nonce=last.nonce,
        )  # fmt: skip
        request = whole(backend, start)
        if request.names != last.names:
            return None
        staged.send(backend)
    except GputrainError:  # it cannot be asked from here: then it is waited for
        return None
    return candidate, request
