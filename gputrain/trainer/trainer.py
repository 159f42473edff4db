"""`Trainer`: plans, submits and finds jobs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from gputrain.arguments import check, refusing
from gputrain.backends.base import Backend, JobRef, Orphan
from gputrain.errors import GputrainError
from gputrain.fields import read_whole
from gputrain.job import Job, Result
from gputrain.job.events import Listener
from gputrain.job.stopping import StopEvent
from gputrain.lifecycle import State
from gputrain.quota import Quotas
from gputrain.spec.entry import Entry, make_job_id
from gputrain.spec.help import tells_fields
from gputrain.spec.typed import FilePath, Model, SpecFields
from gputrain.trainer.choice import MADE_OF, of_name, spec_asked
from gputrain.trainer.doctor import read as read_quotas
from gputrain.trainer.each import left_out
from gputrain.trainer.images import built, named
from gputrain.trainer.jobs import JobList, Roll, looked_at, wanted
from gputrain.trainer.maps import Maps
from gputrain.trainer.orphans import Orphans, left_behind, removed
from gputrain.trainer.planned import PlannedJob
from gputrain.trainer.road import Road
from gputrain.view import ProgressWord, place_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gputrain.images import BuiltImage, Told
    from gputrain.preflight import Checks
    from gputrain.spec import Image, Moment

log = logging.getLogger("gputrain")


class Trainer(Maps):
    """Plans, submits and finds jobs.

    Args:
        backends: one backend, or several in order of preference; `Local` (this machine) unless said.
        now, sleep: the clock that plans age by, and that waiting for room uses.

    >>> trainer = Trainer()
    >>> plan = trainer.plan("examples/train_plain_ddp.py", nproc_per_node=2)
    >>> plan.candidates[0].backend
    'local'
    """

    @refusing(MADE_OF)
    def __init__(
        self,
        backends: Backend | Sequence[Backend] | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        found = read_whole("Trainer(...)", MADE_OF, {"backends": backends, "now": now, "sleep": sleep})
        self._backends: dict[str, Backend] = found["backends"]
        super().__init__(Road(self._backends, now, sleep))

    def __repr__(self) -> str:
        return f"Trainer([{', '.join(map(repr, self._backends.values()))}])"

    @tells_fields(SpecFields)
    def plan(self, entry: Entry | None = None, **fields: Unpack[SpecFields]) -> PlannedJob:
        """Every way the spec could run, best first, and why the others cannot; nothing is created.

        Args:
            entry: a script (a path), a function, a command (a list), or a whole `TrainingSpec`.
            **fields: fields of `TrainingSpec`.

        Raises:
            SpecError: with all faults of the spec.
        """
        spec = spec_asked(entry, fields)
        return PlannedJob(self._road.plan(spec), self._road, make_job_id(spec, None))

    @tells_fields(SpecFields)
    def doctor(
        self, entry: Entry | None = None, *, idempotency_key: str | None = None, **fields: Unpack[SpecFields]
    ) -> Checks:
        """Look at all that jobs need, before one is made: every fault at once, with what mends it.

        Without a spec, what every job here needs: credentials, APIs, permissions, bucket, network... With
        one, also its code, its image and its name. Nothing is made or changed.

        Args:
            entry: as for `plan`; nothing at all to look without a spec.
            idempotency_key: as for `submit`, to look whether that very job's names are free.
            **fields: fields of `TrainingSpec`.

        Raises:
            SpecError: with all faults of the spec.

        >>> Trainer().doctor("examples/train_plain_ddp.py", nproc_per_node=2).is_ok
        True
        """
        from gputrain.trainer.doctor import examined

        check("doctor(...)", idempotency_key=idempotency_key)
        if entry is None and not fields:
            return examined(self._backends.values(), None, "")
        spec, note, builds = named(self._backends, spec_asked(entry, fields))
        return examined(self._backends.values(), spec, make_job_id(spec, idempotency_key), note, builds)

    def quotas(
        self,
        gpu: str | Sequence[str] | None = None,
        *,
        num_nodes: int = 1,
        provisioning_model: Model | Sequence[Model] | None = None,
        region: str | Sequence[str] | None = None,
    ) -> Quotas:
        """What the project's quotas carry, by GPU, provisioning model and region; it shows itself as a table.

        Read from Google at most once a minute. What nobody could read is unknown, and says why.

        Args:
            gpu: as in a spec (``"H100:8"``), or a list; one machine of every kind unless said.
            num_nodes: machines a job.
            provisioning_model: one or more; all that count against a quota unless said.
            region: one or more; those of each backend unless said.

        Raises:
            SpecError: with all faults of the arguments.
            NoFitError, RequestError: no machine carries that count; no backend has quotas.
        """
        return read_quotas(
            self._backends.values(), gpu=gpu, num_nodes=num_nodes,
            provisioning_model=provisioning_model, region=region,
        )  # fmt: skip

    def build(
        self, image: Image | FilePath, *, told: Told | None = None, create_repository: bool = False
    ) -> BuiltImage:
        """Build and push an image, unless it is there; `submit` does so by itself.

        It is kept where the first backend with a place for images says; ``built.reference`` is its name by
        digest. A build goes on where this process ends, and the next call watches it.

        Args:
            image: as a spec's; a path is that of a Dockerfile.
            told: takes each line that the build writes; the log of ``gputrain`` unless said.
            create_repository: make the repository where there is none.

        Raises:
            RequestError, SpecError: the build failed, with the end of its log; what goes in cannot travel.
            AccessError, TransientError: as Google's services answer.
        """
        return built(self._backends, image, told=told, create_repository=create_repository)

    @tells_fields(SpecFields)
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

        A place that is out of stock sends it to the next, those first that Google names; a regional quota
        to the next region; a permission or a project-wide quota to the next backend. Where
        ``max_wait_duration`` is given and no place has room, it waits and goes round again until then.
        ``job.attempts`` is the ledger. Ctrl-C meanwhile withdraws what was being made.

        Args:
            entry: as for `plan`.
            idempotency_key: any text; submitting twice with the same key gives the same job. It counts
                within the ``name``, where one is given.
            stop: a `threading.Event` that ends the waiting for room, and for another process with this key.
            on_change: told of each change of the job from now on, as by `Job.watch`.
            **fields: fields of `TrainingSpec`.

        Raises:
            SpecError: with all faults of the spec, before anything is touched.
            ConflictError: the key is that of a job with another spec.
            StoppedError: ``stop`` was set while it waited; no job was made.
            NoFitError: nothing on offer has that shape; it names what exists.
            NoPlacementError: no place took it; it carries the ledger of attempts.
            QuotaExceededError: every quota is too small, and nothing was tried; or as below.
            AccessError, RequestError, TransientError: as the only place that was tried answers.
        """
        return self._asked(spec_asked(entry, fields), idempotency_key, stop, on_change)

    def watch(self, listener: Listener) -> Roll:
        """Tell a listener of each change of every job: those that live, and all that come, by whomever.

        It is called from a thread of ours, with one `JobEvent` at a time; what it raises is logged.
        ``close()`` ends it, and so does the end of this process.
        """
        roll = Roll(lambda refused: self._road.listed(refused=refused), listener, self._rolls.discard)
        self._rolls.add(roll)
        return roll

    @tells_fields(SpecFields)
    def run(
        self,
        entry: Entry | None = None,
        *,
        progress: ProgressWord | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[SpecFields],
    ) -> Result:
        """Submit, show and wait; as `submit`, `Job.wait` and `Job.result` one after the other.

        Args:
            entry, idempotency_key, progress: as for `submit` and `Job.wait`.
            **fields: fields of `TrainingSpec`.

        Raises:
            JobFailedError: with the first failing rank's own traceback.
        """
        place_of(progress)  # refused before there is a job
        job = self.submit(entry, idempotency_key=idempotency_key, **fields)
        job.wait(progress=progress)
        return job.result()

    def attach(self, uri: str) -> Job:
        """Take up a job of one of this trainer's backends.

        Raises:
            SpecError: the uri names no job of these backends.
            JobLostError: the job cannot be found.
        """
        ref = JobRef.parse(uri)
        return self._road.taken_up(ref, of_name(self._backends, ref.backend))

    def jobs(
        self,
        *,
        name: str = "",
        state: State | str | Iterable[State | str] | None = None,
        labels: Mapping[str, str] | None = None,
        since: Moment | None = None,
    ) -> JobList:
        """Jobs that exist on these backends, newest first; it shows itself as a table.

        One that cannot be looked at now is left out, and the log says why. So are those of a backend that
        cannot be listed, which the table says: what is not in it may be there.

        Args:
            name: how their ids begin.
            state: in one of these states.
            labels: with all of these labels in their spec.
            since: made since then; ``"2h"`` or a timedelta counts back from now.

        Raises:
            SpecError: there is no such state, or ``since`` is no moment.
            AccessError, TransientError: none of the jobs can be looked at.
        """
        asked, refused = wanted(state, labels, since, self._road.now()), dict[str, GputrainError]()
        found = looked_at(self._road.listed(name, refused))
        # One that has gone on to another backend is listed by both, and leads to where it is from either.
        jobs = asked.of(dict.fromkeys(found))
        jobs.left_out = left_out(refused, "list of jobs")
        return jobs

    def supervise(self) -> JobList:
        """Start every interrupted job again that may be; those that were. A service calls it now and then."""
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
        """What bears our label and has no living job, with what it costs; nothing is removed.

        A backend that cannot be asked is left out, which the table says: there may be more of its.
        """
        return left_behind(self._backends.values())

    def clean_up(self, only: Sequence[Orphan] | None = None) -> Orphans:
        """Remove the `orphans`; what was removed. A backend that cannot be asked is left out, as there.

        Args:
            only: of what a person has seen; what has become an orphan since is left. All unless given.
        """
        return removed(self._backends.values(), only)
