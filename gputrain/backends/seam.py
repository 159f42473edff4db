"""What is asked of a backend, anybody's: each call within its guard, each answer of the kind that is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from gputrain.backends.abilities import (
    BarsLate,
    BuildsImages,
    FindsTheEnd,
    KeepsRecords,
    Recorder,
    RunsInAPython,
    StandsIn,
)
from gputrain.backends.base import (
    Backend,
    Bundle,
    ChecksRefs,
    CleansUp,
    Completes,
    JobRef,
    LogLine,
    LogPage,
    Orphan,
    Request,
    SendsCode,
    Start,
    Tidies,
)
from gputrain.backends.dues import NONE, all_due, due, named, seconds
from gputrain.backends.guard import foreseen, is_ours, of
from gputrain.errors import GputrainError
from gputrain.lifecycle import Observation
from gputrain.records import Ask, Board, Code, Record
from gputrain.spec import TrainingSpec

if TYPE_CHECKING:
    from gputrain.images import Works


def poll_s(backend: Backend) -> float:
    """Seconds between two looks. Errors, here and below, as of the backend's own call."""
    with of(backend, backend.name, "read the pause between two looks"):
        return seconds("poll_s", backend.poll_s)


def trial(backend: Backend) -> str:
    """The address of the emulator that stands for its platform; empty: this is no trial."""
    with of(backend, backend.name, "tell the emulator"):
        return due("trial", backend.trial, str) if isinstance(backend, StandsIn) else ""


def works(backend: Backend) -> Works | None:
    """Where its images are built and kept; None where it keeps none."""
    with of(backend, backend.name, "tell where images are built"):
        if isinstance(backend, BuildsImages):
            from gputrain.images import Works

            return due("works", backend.works, Works)
    return None


def find(backend: Backend, name: str) -> tuple[JobRef, ...]:
    """The jobs that exist."""
    with of(backend, backend.name, "list the jobs"):
        found = all_due("find(...)", backend.find(name=name), JobRef)
        return tuple(named("one of find(...)", ref, {backend.name}) for ref in found)


def stage(backend: Backend, spec: TrainingSpec, job_id: str) -> Bundle:
    """The code, and where the job will find it."""
    with of(backend, backend.name, "stage the code"):
        return due("stage(...)", backend.stage(spec, job_id), Bundle)


def render(backend: Backend, start: Start) -> Request:
    """The draft of a request."""
    with of(backend, backend.name, "render a request"):
        draft = due("render(...)", backend.render(start), Request)
        if draft.ref.name:  # what is no name at all is told by whoever would send it
            named("render(...).ref", draft.ref, {draft.ref.backend}, start.job_id)
        return draft


def complete(backend: Backend, draft: Request) -> Request:
    """The request as it is sent; the draft itself, of a backend that has nothing to add."""
    with of(backend, backend.name, "complete a request"):
        if isinstance(backend, Completes):
            whole = due("complete(...)", backend.complete(draft), Request)
            named("complete(...).ref", whole.ref, {draft.ref.backend}, draft.ref.name)
            return whole
    return draft


def send(backend: Backend, bundle: Bundle) -> None:
    """See that the code is where the jobs find it, where it is put there for them."""
    with of(backend, backend.name, "send the code"):
        if isinstance(backend, SendsCode):
            backend.send(bundle)


def create(backend: Backend, request: Request) -> JobRef:
    """The one write. After an UnforeseenError the job may be there."""
    fix = f"it may be there: end it with gputrain.attach({request.ref.uri!r}).cancel()"
    with of(backend, backend.name, "create a job", fix=fix):
        return named("create(...)", backend.create(request), {backend.name}, request.ref.name)


def check_ref(backend: Backend, ref: JobRef) -> None:
    """See that a job's name is one of this backend's, as far as it can tell."""
    with of(backend, backend.name, "read a job's name"):
        if isinstance(backend, ChecksRefs):
            backend.check_ref(ref)


def observe(backend: Backend, ref: JobRef) -> Observation:
    """One look."""
    with of(backend, ref.backend, "look at a job"):
        seen = backend.observe(ref)
        return seen if is_ours(backend) else due("observe(...)", seen, Observation)


def logs(backend: Backend, ref: JobRef, cursor: str) -> LogPage:
    """A page of the log."""
    with of(backend, ref.backend, "read the log of a job"):
        page = backend.logs(ref, cursor)
        if is_ours(backend):  # which tell of a million lines, and are checked as they are typed
            return page
        due("logs(...)", page, LogPage)
        return attrs.evolve(page, lines=all_due("logs(...).lines", page.lines, LogLine))


def cursor_near_end(backend: Backend, ref: JobRef, lines: int) -> str:
    """A cursor after which about so many lines are left; empty: the beginning."""
    with of(backend, ref.backend, "read the log of a job"):
        if isinstance(backend, FindsTheEnd):
            return due("cursor_near_end(...)", backend.cursor_near_end(ref, lines), str)
    return ""


def python(backend: Backend, ref: JobRef) -> str:
    """The interpreter of the job's ranks, where it is one of this machine's; empty: not known."""
    with of(backend, ref.backend, "tell the Python of a job"):
        if isinstance(backend, RunsInAPython):
            return due("python(...)", backend.python(ref), str)
    return ""


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
    with foreseen(backend.name, "look for the orphans"):
        if isinstance(backend, CleansUp):
            return all_due("orphans()", backend.orphans(), Orphan)
    return ()


def clean_up(backend: Backend, only: Sequence[Orphan] | None) -> tuple[Orphan, ...]:
    """Remove the orphans; those that were asked to go."""
    with foreseen(backend.name, "remove the orphans"):
        if isinstance(backend, CleansUp):
            return all_due("clean_up(...)", backend.clean_up(only), Orphan)
    return ()


def recorder(backend: object, name: str) -> Recorder | None:
    """What knows a backend's records; None where it keeps none, or no place for them was named."""
    with foreseen(name, "find the records"):
        found = backend.recorder() if isinstance(backend, KeepsRecords) else None
        if found is not None:
            due("recorder().board", found.board, Board)
            seconds("recorder().settles_s", found.settles_s)
            seconds("recorder().turn_s", found.turn_s)
            due("recorder().repeats", found.repeats, bool)
        return found


def name_of(asked: Recorder, record: Record) -> JobRef:
    """The name of the job that a record is about."""
    with of(asked, record.backend, "tell the name of a job"):
        its = {record.backend, record.latest.way.backend}
        return named("name_of(...)", asked.name_of(record), its, record.job_id)


def there(asked: Recorder, record: Record) -> JobRef | None:
    """The job's name, if what was asked for last is there."""
    with of(asked, record.latest.way.backend, "look for a job that was asked for"):
        found = due("there(...)", asked.there(record), JobRef, NONE)
        return found and named("there(...)", found, {record.latest.way.backend}, record.job_id)


def clear(asked: Recorder, record: Record) -> bool:
    """Remove what was asked for last; whether it is gone."""
    with of(asked, record.latest.way.backend, "remove what was asked for"):
        return due("clear(...)", asked.clear(record), bool)


def choices(asked: Recorder, name: str) -> Mapping[str, str]:
    """What was chosen once for all jobs of the backend of that name."""
    with of(asked, name, "tell its settings"):
        return due("choices", asked.choices, Mapping)


def may_come(asked: BarsLate, record: Record) -> bool:
    """Whether the latest ask may come late, by what this process has sent."""
    with of(asked, record.latest.way.backend, "tell whether a job may come late"):
        return due("may_come(...)", asked.may_come(record), bool)


def bar(asked: BarsLate, name: str, record: Record) -> Ask | None:
    """Keep out what comes late; the ask whose job has come before."""
    with of(asked, name, "keep a late job from training"):
        return due("bar(...)", asked.bar(record), Ask, NONE)


def let_in(asked: BarsLate, record: Record) -> None:
    """Let what is asked for now train."""
    with of(asked, record.latest.way.backend, "let a job train"):
        asked.let_in(record)


def shut(asked: BarsLate, name: str, job_id: str) -> GputrainError | None:
    """Have no job of an id begin any more; what was refused."""
    with of(asked, name, "end what comes late"):
        return due("shut(...)", asked.shut(job_id), GputrainError, NONE)


def code(asked: Recorder, name: str, code: Code) -> Bundle | None:
    """The code of that hash, where the backend of that name would look for it."""
    with of(asked, name, "find the code"):
        return due("code(...)", asked.code(code), Bundle, NONE)
