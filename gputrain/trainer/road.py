"""The road of one spec: from what is on offer to a plan, and from a plan to a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import attrs

from gputrain.arguments import check
from gputrain.backends import guard, registry, seam
from gputrain.backends.base import Backend, JobRef, SpeaksGcloud, Start
from gputrain.backends.dues import due
from gputrain.errors import GputrainError
from gputrain.fields import refused as refusal
from gputrain.job import Job
from gputrain.job.stopping import StopEvent, pausing
from gputrain.planning import Candidate, Fact, GcloudJob, Plan, Wanted, candidates, rank, weigh
from gputrain.planning.supply import unknown_regions
from gputrain.records import Board
from gputrain.spans import span
from gputrain.spec import TrainingSpec
from gputrain.staging.checks import examine
from gputrain.threads import side_by_side
from gputrain.trainer import images
from gputrain.trainer.boards import Boards
from gputrain.trainer.choice import facts_of, one_backend, supply_of
from gputrain.trainer.context import Memory, Placed, Surroundings, whole
from gputrain.trainer.placing import Placing
from gputrain.trainer.restart import Restart

NONCE_TO_COME = "drawn-when-it-is-asked"
"""What a plan shows in the place of a nonce: all of a request that is not known before a place is asked."""


class Road:
    """Plans and submits on some backends; what one submit learns of stockouts helps the next."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._backends = backends
        self.now = now
        self._around = Surroundings(
            backends=backends, boards=Boards(backends), memory=Memory(), read_anew=self._read_anew,
            now=now, sleep=sleep,
        )  # fmt: skip

    @property
    def boards(self) -> tuple[Board, ...]:
        """Where what this trainer asks for may be written down; the first is where it is."""
        return self._around.boards.all()

    def named(self, ref: JobRef, backend: Backend) -> Job:
        """The job of that name, not looked at yet. SpecError: it is none of this backend's."""
        seam.check_ref(backend, ref)
        restart = Restart(self._around, ref.name, backend.name)
        return Job(ref, backend, going=restart, named=by_name, now=self.now, sleep=self._around.sleep)

    def listed(self, name: str = "", refused: dict[str, GputrainError] | None = None) -> Iterator[Job]:
        """The jobs of all backends whose id begins so, newest first; none is looked at yet.

        Args:
            refused: takes the backends that cannot be listed now, or not whole, and why; without it one
                ends the list.

        Raises:
            GputrainError: as a backend answers; where all refuse, as the first.
        """
        check("jobs(...)", name=name)
        found, refusals = list[tuple[JobRef, Backend]](), dict[str, GputrainError]()
        for backend in self._backends.values():
            try:
                refs, partial = registry.jobs_of(backend, name)
            except GputrainError as error:  # the next one is asked all the same
                refs, partial = (), error
            found += [(ref, backend) for ref in refs]
            if partial is not None:
                refusals[backend.name] = partial
        if refusals and (refused is None or (len(refusals) == len(self._backends) and not found)):
            raise next(iter(refusals.values()))
        if refused is not None:
            refused.update(refusals)
        for ref, backend in sorted(found, key=lambda one: one[0].made_at, reverse=True):
            yield self.named(ref, backend)

    def taken_up(self, ref: JobRef, backend: Backend) -> Job:
        """The job of that name, looked at once."""
        job = self.named(ref, backend)
        job.refresh()
        return job

    def plan(self, spec: TrainingSpec) -> Plan:
        """Every way the spec could run, with the facts of now."""
        spec, note, builds = images.named(self._backends, spec)
        supplies = [supply_of(backend) for backend in self._backends.values()]
        wanted = candidates(spec, supplies)
        wanted = weigh(wanted, self._facts(wanted.candidates))
        blocks, now = self._around.memory.blocks, self.now()
        late = tuple(one for one in wanted.candidates if blocks.hold(one, now))
        code = examine(spec, is_sent=any(one.provisioning_model for one in wanted.candidates))
        return Plan(
            spec=spec, candidates=wanted.candidates, refusals=wanted.refusals, made_at=now, late=late,
            notes=(*self._trials(), *unknown_regions(supplies), *code.warnings, *([note] if note else ())),
            faults=code.faults, travels=code.travels, builds=builds,
        )  # fmt: skip

    def _trials(self) -> Iterable[str]:
        """What a person has to know of a plan for an emulator, before it is believed."""
        there = {trial for one in self._backends.values() if (trial := seam.trial(one))}
        told = "this is a trial: {} is an emulator on this machine; gcloud goes to Google unless led there"
        return map(told.format, sorted(there))

    def requests(self, plan: Plan, job_id: str) -> tuple[Mapping[str, Any], ...]:
        """What would be sent for the best candidate. Errors as of `PlannedJob.requests`."""
        best = plan.best
        backend = self._backends[best.backend]
        bundle = seam.stage(backend, plan.spec, job_id)
        start = Start(spec=plan.spec, candidate=best, job_id=job_id, bundle=bundle, nonce=NONCE_TO_COME)
        return (whole(backend, start).body,)

    def gcloud(self, plan: Plan, job_id: str) -> GcloudJob:
        """The best candidate's job in gcloud's words. Errors as of `PlannedJob.to_gcloud`."""
        best = plan.best
        backend = self._backends[best.backend]
        if not isinstance(backend, SpeaksGcloud):
            fix = "plan for VertexAI, whose custom jobs gcloud makes from a file"
            what = f"gcloud makes no jobs of {best.backend}"
            raise refusal("backend", best.backend, "one with such jobs", fix, what=what)
        plan = images.with_image(self._backends, plan)
        bundle = seam.stage(backend, plan.spec, job_id)
        request = whole(backend, Start(spec=plan.spec, candidate=best, job_id=job_id, bundle=bundle))
        seam.send(backend, bundle)
        with guard.of(backend, backend.name, "write a job in gcloud's words"):
            return due("to_gcloud(...)", backend.to_gcloud(request), GcloudJob)

    def submit(
        self,
        plan: Plan,
        job_id: str,
        *,
        is_new: bool,
        stop: StopEvent | None = None,
        waits: bool = True,
        then: Callable[[Job], None] = lambda _: None,
    ) -> Job:
        """The job of that id, found or made at the first place that takes it.

        Args:
            is_new: the id was drawn just now, so that nobody else can know it.
            stop: ends the waiting for room, and for another process.
            waits: whether another process that may be asking for it is waited for.
            then: what is done with the job before anybody has it.
        """
        check("submit(...)", stop=stop)
        placed: Placed | None = None
        try:
            with span("gputrain.submit", {"gputrain.job.id": job_id}):
                placing = self._placing(plan, job_id, stop, waits)
                placed = placing.submit(is_new=is_new)
                going = Restart(self._around, job_id, placed.backend.name, placing.staged)
                job = self._job(placed, going)
                then(job)
                return job
        except KeyboardInterrupt:
            if placed is None:  # it was said then what was made, and what became of it
                raise
            told = f"submit was interrupted when {job_id} was there already, and it goes on"
            raise KeyboardInterrupt(f"{told}: gputrain.attach({placed.ref.uri!r})") from None

    def _placing(self, plan: Plan, job_id: str, stop: StopEvent | None, waits: bool) -> Placing:
        plan.check_fits()
        if plan.is_stale(self.now()):
            plan = attrs.evolve(plan, candidates=self._read_anew(plan.candidates), made_at=self.now())
        plan = images.with_image(self._backends, plan)
        rest = None if stop is None else pausing(stop)
        return Placing(attrs.evolve(self._around, rest=rest, waits_for_others=waits), plan, job_id)

    def _job(self, placed: Placed, going: Restart) -> Job:
        return Job(
            placed.ref,
            placed.backend,
            candidate=placed.candidate,
            attempts=placed.attempts,
            going=going,
            named=by_name,
            now=self.now,
            sleep=self._around.sleep,
        )

    def _read_anew(self, ones: Sequence[Candidate]) -> tuple[Candidate, ...]:
        bare = tuple(attrs.evolve(one, fact=Fact()) for one in ones)
        return rank(Wanted(candidates=bare, refusals=()), self._facts(bare))

    def _facts(self, ones: Sequence[Candidate]) -> dict[Candidate, Fact]:
        """What each backend is told of its candidates, all backends asked side by side."""
        asks = [
            (backend, mine)
            for name, backend in self._backends.items()
            if (mine := [one for one in ones if one.backend == name])
        ]
        found = side_by_side(lambda ask: facts_of(*ask), asks)
        return {candidate: fact for facts in found for candidate, fact in facts.items()}


def by_name(uri: str, backend: Backend | None = None) -> Job:
    """The job of a name, not looked at yet; its backend is made from the name unless given."""
    ref = JobRef.parse(uri)
    backend = registry.of_ref(ref) if backend is None else one_backend(backend)
    return Road({backend.name: backend}).named(ref, backend)
