"""From a spec to a plan, and from a plan to a job: what a trainer knows of its backends and stores."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.backends.base import LAYOUT, Backend, Bundle, Request
from gputrain.code.entry import examine
from gputrain.concurrency import gather
from gputrain.errors import FieldError, GputrainError, RequestError, SpecError, TransientError
from gputrain.fields import check, invalid
from gputrain.job import Job
from gputrain.job.watcher import Listener, StopEvent, pausing
from gputrain.jobstore import FolderStore, JobRecord, JobRef, JobStore, spec_of
from gputrain.orchestration.launcher import Stopped, submit
from gputrain.orchestration.look import Context, Memory
from gputrain.orchestration.options import candidates_left, draw, option_of, remaining
from gputrain.planning import Candidate, Fact, GcloudJob, candidates, rank, unknown_regions, weigh
from gputrain.spec import Image, TrainingSpec
from gputrain.spec.entry import Entry, launcher_warning, make_job_id, make_spec
from gputrain.text import redact
from gputrain.tracing import span
from gputrain.trainer import images
from gputrain.trainer.plan import Plan, placement_error

if TYPE_CHECKING:
    from gputrain.trainer.jobs import JobFeed

log = logging.getLogger("gputrain")

SHOWN_ID = "attempt0"
"""What a plan shows in the place of an attempt's id, which is drawn when a place is tried."""
_OF_CODE = ("script", "module", "command", "function", "entrypoint", "args", "source_dir", "requirements")


class Code:
    """The code of one job: packed from its folder where it was submitted, found by its hash anywhere else."""

    def __init__(self, backends: Mapping[str, Backend], spec: TrainingSpec | None = None) -> None:
        self._backends, self._spec = backends, spec
        self._bundles: dict[str, Bundle] = {}

    def __call__(self, record: JobRecord, backend: str) -> Bundle:
        """The code where a backend looks for it, uploaded unless it is there.

        Raises:
            SpecError: the entry is not there, or something in its folder cannot be uploaded.
            RequestError, AccessError: it cannot be uploaded, or was to be there and is not.
        """
        bundle = self.bundle(record, backend)
        if bundle.content:
            self._backends[backend].upload(bundle)
            self._bundles[backend] = bundle = attrs.evolve(bundle, content=b"")
        return bundle

    def bundle(self, record: JobRecord, backend: str) -> Bundle:
        """The same, not uploaded yet."""
        if backend in self._bundles:
            return self._bundles[backend]
        if self._spec is not None:
            found: Bundle | None = self._backends[backend].package(self._spec, record.job_id)
        else:
            found = self._backends[backend].find_code(record.code, record.argv)
        if found is None:
            what = f"the code of {record.job_id} is not kept where {backend} looks for it"
            fix = "submit it again under its key from where its code lies"
            raise RequestError(what, fix=fix, try_elsewhere=True)
        if record.code and found.sha256 and record.code != found.sha256:
            what = f"the code of {record.job_id} has changed since it was submitted"
            raise RequestError(what, fix="submit it under another key, or as it was")
        self._bundles[backend] = found
        return found

    def is_at_hand(self, record: JobRecord, backend: str) -> bool:
        """Whether a launch on a backend would have it, as far as is known. It uploads nothing."""
        try:
            self.bundle(record, backend)
        except TransientError:  # unknown; the launch reads again
            return True
        except GputrainError:
            return False
        return True


class Planner:
    """Plans and submits on some backends; what one submit learns of stockouts helps the next.

    Args:
        backends, now, sleep: as of `Trainer`.
        named: makes a job from its name, where a pickled one is read.

    Raises:
        SpecError: two of the backends keep records in different buckets.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        now: Callable[[], datetime],
        sleep: Callable[[float], None],
        named: Callable[[str], Job],
    ) -> None:
        self.backends, self.now, self._sleep, self._named = backends, now, sleep, named
        self._memory = Memory()
        self.feeds: set[JobFeed] = set()
        """They get each job that is submitted."""
        kept = [one.documents for one in self.backends.values()]
        self._folders = {one.uri: JobStore(one) for one in kept if isinstance(one, FolderStore)}
        buckets = {one.uri: JobStore(one) for one in kept if one.uri not in self._folders}
        if len(buckets) > 1:
            fix = "give all of them one bucket=; their jobs have separate names there"
            what = "the backends of one trainer keep records in one bucket"
            raise invalid("backends", ", ".join(buckets), "backends with the same bucket", fix, what=what)
        self._bucket = next(iter(buckets.values()), None)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a pickled plan has none

    @property
    def stores(self) -> tuple[JobStore, ...]:
        """Where records of this trainer's jobs lie, a bucket first."""
        return (*filter(None, [self._bucket]), *self._folders.values())

    def store_of(self, ref: JobRef) -> JobStore:
        """The store that a job's name belongs to. SpecError: it is another project's or place's."""
        for store in self.stores:
            if store.documents.ref(ref.name) == ref:
                return store
        there = ", ".join(store.documents.ref("NAME").uri for store in self.stores)
        fix = "gputrain.attach(uri) finds it by itself"
        raise invalid("uri", ref.uri, f"a job of {there}", fix, what="this trainer keeps no such job")

    def context(self, store: JobStore, code: Code | None = None) -> Context:
        """How the jobs of a store are launched and inspected."""
        code = code or Code(self.backends)
        emulators = [one.emulator for one in self.backends.values() if one.emulator and store is self._bucket]
        return Context(
            jobs=store, backends=self.backends, code=code, refresh=self._refresh, now=self.now,
            candidates_left=lambda record: self._candidates_left(record, code), sleep=self._sleep,
            memory=self._memory, emulator=emulators[0] if emulators else "",
        )  # fmt: skip

    def job(self, job_id: str, context: Context) -> Job:
        """The handle of a job whose record is in the context's store."""
        return Job(context.jobs.documents.ref(job_id), context, named=self._named)

    def plan(self, spec: TrainingSpec) -> Plan:
        """Every way the spec could run, with the facts of now."""
        job_id, note, builds = make_job_id(spec, None), "", None
        if isinstance(spec.image, Image):
            spec, note, builds = images.named(self.backends, spec)
        supplies = [backend.supply for backend in self.backends.values()]
        found = candidates(spec, supplies)
        found = weigh(found, self._facts(found.candidates))
        now = self.now()
        code = examine(spec, is_sent=any(one.provisioning_model for one in found.candidates))
        outputs = redact(spec.output_dir) if spec.output_dir else ""
        if not outputs and found.candidates:
            folder = self.backends[found.candidates[0].backend].job_folder("JOB")
            outputs = f"{folder}/{LAYOUT['output_dir']}" if folder else ""
        notes = [
            f"Using the emulator at {emulator}; gcloud itself still talks to Google"
            for emulator in sorted({one.emulator for one in self.backends.values()} - {""})
        ]
        notes += [*dict.fromkeys(unknown_regions(supplies)), *code.warnings]
        notes += [
            f"{one.backend}: {caution.why}. {caution.fix}"
            for one in supplies for caution in one.cautions if caution.asks(spec)
        ]  # fmt: skip
        notes += filter(None, [launcher_warning(spec) if spec.command else "", note])
        late = tuple(one for one in found.candidates if self._memory.blocks.hold(one, now))
        return Plan(
            spec=spec, candidates=found.candidates, refusals=found.refusals, made_at=now, late=late,
            notes=tuple(notes), faults=code.faults, uploads=code.uploads, builds=builds, outputs=outputs,
            job_id=job_id, planner=self,
        )  # fmt: skip

    def request(self, plan: Plan, attempt_id: str = SHOWN_ID) -> tuple[Request, Bundle]:
        """What would be sent for the best candidate, and the code. Nothing is sent or uploaded."""
        best, code = plan.best, Code(self.backends, plan.spec)
        record = self._first_record(plan, plan.job_id, code)
        bundle = code.bundle(record, best.backend)
        attempt = draw(record, best, self.now(), attempt_id)
        return self.backends[best.backend].build_request(record, plan.spec, attempt, best, bundle), bundle

    def gcloud(self, plan: Plan) -> GcloudJob:
        """As of `Plan.to_gcloud`."""
        backend = self.backends[plan.best.backend]
        request, bundle = self.request(images.with_image(self.backends, plan), "")
        job = backend.to_gcloud(request)
        backend.upload(bundle)
        return job

    def submit(
        self,
        plan: Plan,
        key: str | None,
        *,
        stop: StopEvent | None = None,
        on_change: Listener | None = None,
    ) -> Job:
        """The job of a plan, found or launched at the first place that takes it: as of `Trainer.submit`."""
        check("submit(...)", idempotency_key=key, stop=stop, on_change=on_change)
        job_id = plan.job_id if key is None else make_job_id(plan.spec, key)
        plan.check_fits()
        if plan.is_stale(self.now()):
            plan = attrs.evolve(plan, candidates=self._refresh(plan.candidates), made_at=self.now())
        if plan.builds is not None:
            plan = images.with_image(self.backends, plan)
        code = Code(self.backends, plan.spec)
        context = self.context(self._store_for(plan, has_key=key is not None), code)
        asked = context if stop is None else attrs.evolve(context, sleep=pausing(stop))
        longest = plan.spec.max_wait_duration
        give_up_at = None if longest is None else self.now() + longest
        with span("gputrain.submit", {"gputrain.job.id": job_id}):
            try:
                first = self._first_record(plan, job_id, code)
                outcome = submit(asked, first, plan.candidates, give_up_at, may_exist=key is not None)
            except KeyboardInterrupt as pressed:
                text = str(pressed) or "submit was interrupted; nothing was made"
                raise KeyboardInterrupt(text) from None
        if isinstance(outcome, Stopped):
            raise placement_error(plan, outcome.failover, outcome.reason)
        job = Job(context.jobs.documents.ref(job_id), context, stored=outcome, named=self._named)
        for feed in tuple(self.feeds):  # a listener may close one
            feed.add(job)
        if on_change is not None:
            job.watch(on_change)
        return job

    def _store_for(self, plan: Plan, *, has_key: bool) -> JobStore:
        """In the bucket if an option is on Google Cloud, or a key may be submitted anywhere.

        Else in the folder of the first backend that has an option, whichever is the best today.
        """
        asked = {one.backend for one in plan.candidates}
        kept = [one.documents.uri for name, one in self.backends.items() if name in asked]
        is_cloud = not self._folders.keys() >= set(kept)
        if self._bucket is not None and (has_key or is_cloud):
            return self._bucket
        return self._folders[kept[0]]

    def _first_record(self, plan: Plan, job_id: str, code: Code) -> JobRecord:
        """The record of a job that has no attempt yet."""
        names = {one.backend for one in plan.candidates}
        record = JobRecord(
            job_id=job_id,
            spec=spec_of(plan.spec),
            options=tuple(map(option_of, plan.candidates)),
            settings={name: dict(self.backends[name].settings) for name in names},
            created_at=self.now().timestamp(),
        )
        if plan.spec.function is None:
            return record
        script = code.bundle(record, plan.best.backend).argv[0]
        return attrs.evolve(record, spec=spec_of(plan.spec, script))

    def _candidates_left(self, record: JobRecord, code: Code) -> tuple[Candidate, ...]:
        """Where a job may be launched: on backends that are set as those that it was submitted with."""
        spec = remaining(record)
        if spec is None:
            return ()
        alike = [one for name, one in self.backends.items() if self._is_set_alike(name, record)]
        found = candidates_left(record, spec, [one.supply for one in alike])
        sent = {name for name in {one.backend for one in found} if code.is_at_hand(record, name)}
        if found and not sent:
            log.warning("%s cannot be launched again from here: its code is not kept", record.job_id)
        return self._refresh([one for one in found if one.backend in sent])

    def _is_set_alike(self, name: str, record: JobRecord) -> bool:
        """Whether a backend would make what was made before: its settings are ours, never the record's."""
        there, own = record.settings.get(name), self.backends[name].settings
        if there is None:
            return any(one.backend == name for one in record.options)
        other = sorted(key for key in {*there, *own} if there.get(key) != own.get(key))
        if other:
            parts = ", ".join(f"{key}={there.get(key)!r} (here {own.get(key)!r})" for key in other)
            log.warning("%s can be launched again by a %s backend with %s", record.job_id, name, parts)
        return not other

    def _refresh(self, ones: Sequence[Candidate]) -> tuple[Candidate, ...]:
        bare = [attrs.evolve(one, fact=Fact()) for one in ones]
        return rank(bare, self._facts(bare))

    def _facts(self, ones: Sequence[Candidate]) -> dict[Candidate, Fact]:
        """What each backend reads about its candidates, all backends at the same time."""
        asks = [
            (backend, mine)
            for name, backend in self.backends.items()
            if (mine := [one for one in ones if one.backend == name])
        ]
        found = gather(lambda ask: ask[0].availability(ask[1]), asks)
        return {candidate: fact for facts in found for candidate, fact in facts.items()}


def spec_asked(entry: Entry | None, fields: Mapping[str, Any]) -> TrainingSpec:
    """The spec of an entry and fields. Raises SpecError: with all its faults, and those of its code."""
    try:
        return make_spec(entry, fields)
    except SpecError as error:
        more: tuple[FieldError, ...] = ()
        with suppress(SpecError):  # the code is examined as far as its own fields can be read
            of_code = make_spec(entry, {name: fields[name] for name in _OF_CODE if name in fields})
            more = examine(of_code, is_sent=False).faults
        if not more:
            raise
        what = error.what + "\nand its code:" + "".join(f"\n  {one}" for one in more)
        raise SpecError(what, faults=(*error.faults, *more)) from None
