"""`Trainer`: plans, submits and finds jobs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from gputrain.backends import registry
from gputrain.backends.base import Backend, Machine
from gputrain.display.live import ProgressWord, display_mode
from gputrain.errors import AccessError, GputrainError
from gputrain.experiments import Experiment
from gputrain.experiments.experiment import map_points, resume
from gputrain.fields import ARGUMENTS, Errors, Field, check, invalid, read_whole, text
from gputrain.google import MissingError
from gputrain.job import Job, Result
from gputrain.job.watcher import Listener, StopEvent
from gputrain.jobstore import JobRef
from gputrain.lifecycle import State
from gputrain.quota import Quotas
from gputrain.spec import Image
from gputrain.spec.entry import Entry, document_fields, make_spec
from gputrain.spec.types import FilePath, Model, PointFields, SpecFields
from gputrain.trainer.doctor import check_build, read as read_quotas
from gputrain.trainer.images import built, named
from gputrain.trainer.jobs import (
    A_BACKEND,
    BACKEND_FIX,
    JobFeed,
    JobList,
    Orphans,
    by_name,
    clean_up,
    left_out,
    listed,
    looked_at,
    orphans,
    wanted,
)
from gputrain.trainer.plan import Plan
from gputrain.trainer.planner import Planner, spec_asked

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gputrain.doctor import Checks
    from gputrain.images import BuiltImage, OnLine
    from gputrain.spec import Moment

log = logging.getLogger("gputrain")


def _chosen(backends: object) -> dict[str, Backend]:
    """A trainer's backends by name, in the order given; this machine where it is None.

    Raises:
        SpecError: with everything that is no backend, or that there is none, or two of a kind.
    """
    given = registry.find("local")() if backends is None else backends
    listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    errors = Errors("Trainer(...)")
    for one in listed:
        errors.check(isinstance(one, Backend), "backends", one, A_BACKEND, BACKEND_FIX)
    named = {one.name: one for one in listed if isinstance(one, Backend)}
    if errors.is_clean("backends"):
        is_each_once = bool(listed) and len(named) == len(listed)
        errors.check(is_each_once, "backends", list(named), "one or more, each kind once", "Trainer()")
    errors.raise_if_any()
    return named


_MADE_OF = {
    "backends": Field(_chosen, "one or more, each kind once", "Trainer()", is_needed=True),
    **{name: ARGUMENTS[name] for name in ("now", "sleep")},
}
_NAMED = {"name": Field(text, "the name of an experiment", "name='scan'", is_needed=True)}


class Trainer:
    """Plans, submits and finds jobs.

    Args:
        backends: one backend, or several in order of preference; by default `Local`, this machine.
        now, sleep: the clock for the age of plans, and for waiting.

    >>> trainer = Trainer()
    >>> plan = trainer.plan("examples/train_plain_ddp.py", nproc_per_node=2)
    >>> plan.candidates[0].backend
    'local'
    """

    def __init__(
        self,
        backends: Backend | Sequence[Backend] | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        found = read_whole("Trainer(...)", _MADE_OF, {"backends": backends, "now": now, "sleep": sleep})
        self._backends: dict[str, Backend] = found["backends"]
        self.planner = Planner(self._backends, now, sleep, by_name)

    def __repr__(self) -> str:
        return f"Trainer([{', '.join(map(repr, self._backends.values()))}])"

    @document_fields(SpecFields)
    def plan(self, entry: Entry | None = None, **fields: Unpack[SpecFields]) -> Plan:
        """Every way the spec could run, best first, and why the others cannot. Creates nothing.

        Args:
            entry: a script (a path), a function, a command (a list), or a whole `TrainingSpec`.
            **fields: fields of `TrainingSpec`.

        Raises:
            SpecError: with all faults of the spec.
        """
        return self.planner.plan(spec_asked(entry, fields))

    @document_fields(SpecFields)
    def doctor(
        self, entry: Entry | None = None, *, idempotency_key: str | None = None, **fields: Unpack[SpecFields]
    ) -> Checks:
        """Check all that jobs need: every fault at once, each with its fix. Changes nothing.

        Without a spec: credentials, APIs, permissions, bucket, network. With one, also its code and image.

        Args:
            entry: as for `plan`; without it, what every job needs is checked.
            idempotency_key: as for `submit`; checked to be one.
            **fields: fields of `TrainingSpec`.

        Raises:
            SpecError: with all faults of the spec.

        >>> Trainer().doctor("examples/train_plain_ddp.py", nproc_per_node=2).is_ok
        True
        """
        from gputrain.trainer.doctor import examined

        check("doctor(...)", idempotency_key=idempotency_key)
        if entry is None and not fields:
            return examined(self._backends.values(), None)
        spec, note, builds = named(self._backends, spec_asked(entry, fields))
        return examined(self._backends.values(), spec, note, builds)

    def quotas(
        self,
        gpu: str | Sequence[str] | None = None,
        *,
        num_nodes: int = 1,
        provisioning_model: Model | Sequence[Model] | None = None,
        region: str | Sequence[str] | None = None,
    ) -> Quotas:
        """The project's quotas by GPU, provisioning model and region; it shows itself as a table.

        Read from Google at most once a minute. What could not be read is unknown, with the reason.

        Args:
            gpu: as in a spec (``"H100:8"``), or a list; by default one machine of every kind.
            num_nodes: machines a job.
            provisioning_model: one or more; by default all that count against a quota.
            region: one or more; by default those of each backend.

        Raises:
            SpecError: with all faults of the arguments.
            NoFitError, RequestError: no machine carries that count; no backend has quotas.
        """
        return read_quotas(
            self._backends.values(), gpu=gpu, num_nodes=num_nodes,
            provisioning_model=provisioning_model, region=region,
        )  # fmt: skip

    def build(
        self, image: Image | FilePath, *, on_line: OnLine | None = None, create_repository: bool = False
    ) -> BuiltImage:
        """Build and push an image, unless it is there; `submit` does so by itself.

        It is kept by the first backend that keeps images; ``built.reference`` is its name by digest. A build
        continues if this process ends, and the next call watches it. A refusal names all that is missing.

        Args:
            image: as a spec's; a path is that of a Dockerfile.
            on_line: called with each line that the build writes; by default they are logged.
            create_repository: create the repository if there is none.

        Raises:
            RequestError: the build failed, with the end of its log.
            SpecError: its files cannot be uploaded.
            AccessError, TransientError: from Google's services.
        """
        image = image if isinstance(image, Image) else Image(dockerfile=image)
        try:
            return built(self._backends, image, on_line=on_line, create_repository=create_repository)
        except (AccessError, MissingError):
            check_build(self._backends.values(), image, create_repository=create_repository)
            raise

    @document_fields(SpecFields)
    def submit(
        self,
        entry: Entry | None = None,
        *,
        idempotency_key: str | None = None,
        stop: StopEvent | None = None,
        on_change: Listener | None = None,
        **fields: Unpack[SpecFields],
    ) -> Job:
        """Start a job at the first place of the plan that takes it.

        If a place is out of stock, the next is tried, first those that Google names; after a regional quota
        the next region; after a missing permission or a project-wide quota the next backend. With
        ``max_wait_duration`` all places are tried again until then. ``job.attempts`` lists what was tried.
        Ctrl-C cancels what has been launched.

        Args:
            entry: as for `plan`.
            idempotency_key: any text; submitting twice with the same key gives the same job. It counts
                within the ``name``, where one is given.
            stop: a `threading.Event` that ends the waiting for room, and for another process with this key.
            on_change: called with each change of the job, as by `Job.watch`.
            **fields: fields of `TrainingSpec`.

        Raises:
            SpecError: with all faults of the spec, before anything is touched.
            ConflictError: the key is that of a job with another spec.
            StoppedError: ``stop`` was set while it waited; no job was made.
            NoFitError: nothing on offer has that shape; it names what exists.
            NoPlacementError: no place took it; it carries the ledger of attempts.
            QuotaExceededError: every quota is too small, and nothing was tried; or as below.
            AccessError, RequestError, TransientError: the error of the only place that was tried.
        """
        check("submit(...)", idempotency_key=idempotency_key, stop=stop, on_change=on_change)
        plan = self.planner.plan(spec_asked(entry, fields))
        return self.planner.submit(plan, idempotency_key, stop=stop, on_change=on_change)

    def watch(self, listener: Listener) -> JobFeed:
        """Call a listener with each change of every job: those that run, and all that come.

        It is called from another thread, with one `JobEvent` at a time; what it raises is logged.
        ``close()`` ends it.
        """
        return JobFeed(self.planner, listener)

    @document_fields(SpecFields)
    def run(
        self,
        entry: Entry | None = None,
        *,
        progress: ProgressWord | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[SpecFields],
    ) -> Result:
        """Submit a job, wait for it with a display, and return its result.

        Args:
            entry, idempotency_key, progress: as for `submit` and `Job.wait`.
            **fields: fields of `TrainingSpec`.

        Raises:
            JobFailedError: with the first failing rank's own traceback.
        """
        display_mode(progress)  # refused before there is a job
        job = self.submit(entry, idempotency_key=idempotency_key, **fields)
        job.wait(progress=progress)
        return job.result()

    @document_fields(PointFields)
    def map(
        self,
        entry: Entry,
        over: Iterable[Mapping[str, Any]],
        *,
        name: str,
        arguments: Callable[[Mapping[str, Any]], Sequence[str] | Mapping[str, Any]] | None = None,
        max_parallel: int | None = None,
        max_cost: float | None = None,
        **fields: Unpack[PointFields],
    ) -> Experiment:
        """One job a point, as one `Experiment`. Run the same script again to resume it.

        The jobs are submitted from a thread, and this returns at once. A point that fails stops no other.

        Args:
            entry: as for `plan`.
            over: the points, mappings of names to numbers, texts, lists; `gputrain.grid` makes some.
            name: of the experiment. The same point under the same name is the same job. More points are added
                to the experiment; with fewer, only those are shown.
            arguments: from a point to the arguments of its job: texts for a command line, or a mapping. By
                default a script gets ``--name value``, and a function keyword arguments.
            max_parallel: jobs at a time; by default what this machine's cores or the quotas allow.
            max_cost: US dollars for all points together, also those that are added later; each may use its
                equal share of what the others leave, and no more than the ``max_cost`` of ``entry``.
            **fields: fields of `TrainingSpec`, for all of them.

        Raises:
            SpecError: with all faults, before anything is touched.
            ConflictError: the experiment of that name has another spec, or other arguments.
            RequestError: its points may cost more than ``max_cost`` already.
            NoFitError: nothing on offer has that shape.
        """
        return map_points(
            _Points(self), self.planner.stores[0].documents, make_spec(entry, fields), over,
            name=name, arguments=arguments, max_parallel=max_parallel, max_cost=max_cost,
        )  # fmt: skip

    def experiment(self, name: str) -> Experiment:
        """The experiment of that name, in any process; points without a job are submitted.

        Raises:
            JobLostError: there is none.
        """
        found = read_whole("", _NAMED, {"name": name})
        return resume(_Points(self), self.planner.stores[0].documents, found["name"])

    def attach(self, uri: str) -> Job:
        """Get a job of this trainer's backends by its name.

        Raises:
            SpecError: the uri names no job of these backends.
            JobLostError: the job cannot be found.
        """
        ref = JobRef.parse(uri)
        job = self.planner.job(ref.name, self.planner.context(self.planner.store_of(ref)))
        job.refresh()
        if job.backend not in ("", *self._backends):
            what = f"this trainer has no backend {job.backend!r}"
            there, fix = ", ".join(self._backends), "gputrain.attach(uri) finds it by itself"
            raise invalid("uri", uri, f"a job of {there}", fix, what=what)
        return job

    def jobs(
        self,
        *,
        name: str = "",
        state: State | str | Iterable[State | str] | None = None,
        labels: Mapping[str, str] | None = None,
        since: Moment | None = None,
    ) -> JobList:
        """Jobs that exist on these backends, newest first; it shows itself as a table.

        Jobs that cannot be inspected now are left out and logged, and so are those of a backend that cannot
        be listed, which the table names.

        Args:
            name: the beginning of their ids.
            state: one or more states.
            labels: all of these labels are in their spec.
            since: submitted since then; ``"2h"`` or a timedelta counts back from now.

        Raises:
            SpecError: there is no such state, or ``since`` is no time.
            AccessError, TransientError: none of the jobs can be inspected.
        """
        is_wanted = wanted(state, labels, since, self.planner.now())
        there, refused = listed(self.planner, name)
        found, unseen = looked_at(there, self._backends)
        refused.update({job.backend: error for job, error in unseen.items() if job.backend})
        jobs = JobList(filter(is_wanted, found))
        jobs.left_out = left_out(refused, "list of jobs")
        return jobs

    def supervise(self) -> JobList:
        """Restart every interrupted job that may be restarted; those that were. For a service to call."""
        started, jobs = JobList(), self.jobs()
        started.left_out = jobs.left_out
        for job in jobs:
            try:
                if job.supervise():
                    started.append(job)
            except GputrainError as error:  # noqa: PERF203  # the next one is looked after all the same
                log.warning("%s could not be looked after: %s", job.uri, error)
        return started

    def orphans(self) -> Orphans:
        """Machines that have our label and have no living job, with their costs. Removes nothing.

        A backend that cannot be listed is left out, and the table names it.
        """
        return orphans(self.planner)

    def clean_up(self, only: Sequence[Machine] | None = None) -> Orphans:
        """Remove the `orphans`; those that were removed.

        Args:
            only: these orphans; by default all.
        """
        return clean_up(self.planner, only)


class _Points:
    """What an experiment needs of a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        self._planner, self.plan, self.submit = trainer.planner, trainer.plan, trainer.submit

    def jobs(self, *, name: str = "") -> Iterable[Job]:
        found, refused = listed(self._planner, name)
        for error in refused.values():
            raise error
        seen, unseen = looked_at(found, self._planner.backends)
        return [*seen, *unseen]  # those may run and cost all the same: a cancel ends them, too
