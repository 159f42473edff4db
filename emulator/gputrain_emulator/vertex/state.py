"""Every custom job of the emulated world, what they compete for, and what can be done to them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from gputrain_emulator.errors import ApiError
from gputrain_emulator.logging import Logs
from gputrain_emulator.quotas import Key, Quotas
from gputrain_emulator.vertex.states import (
    TERMINAL,
    Ask,
    Ending,
    Endings,
    Fate,
    Job,
    Life,
    Link,
    Phase,
    Settings,
    Shares,
    State,
)
from gputrain_emulator.world import Project, World

SAID = {
    State.QUEUED: "Job is queued until quota is available.",
    State.PENDING: "Waiting for job to be provisioned.",
    State.RUNNING: "Job is running.",
    State.SUCCEEDED: "Job completed successfully.",
    State.CANCELLING: "Job is being cancelled.",
    State.CANCELLED: "Job cancelled.",
    State.FAILED: "Job failed.",
}


class Vertex:
    """The state of Vertex AI. Everything here runs under the world's lock.

    Attributes:
        settings: times and open questions, see `endings.Settings`; replace it before jobs are created.
        deaf_accounts: service accounts that may not write logs (no roles/logging.logWriter).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = Settings()
        self.jobs: dict[str, Job] = {}
        self.shares = Shares(world.part(Quotas))
        self.persistent_resources: set[tuple[str, str, str]] = set()
        self.tensorboards: dict[str, str] = {}
        self.forbidden_accounts: set[str] = set()
        self.deaf_accounts: set[str] = set()
        self.operations: dict[str, dict[str, Any]] = {}
        self._fates: list[tuple[str, Fate]] = []
        self._serials = itertools.count(1)

    # what a test arranges

    def set_fate(self, fate: Fate, *, display_name: str = "") -> None:
        """What becomes of jobs created from now on, or of those with a display name; the last one wins."""
        with self.world.lock:
            self._fates.insert(0, (display_name, fate))

    def set_limit(self, metric: str, limit: int, *, region: str, project: str = "") -> None:
        """Set a quota limit (region `*`: everywhere); `metric` may leave out `aiplatform.googleapis.com/`."""
        with self.world.lock:
            whole = metric if "/" in metric else f"aiplatform.googleapis.com/{metric}"
            owner = project or next(iter(self.world.projects))
            self.shares.quotas.set_limit(Key(project=owner, metric=whole, region=region), limit)
            self.look_again()

    def set_stock(self, machine_type: str, count: int, *, region: str) -> None:
        """How many machines of a type the region can still give; without this it never runs out."""
        with self.world.lock:
            self.shares.stock[region, machine_type] = count

    # jobs

    def create(
        self, project: Project, region: str, document: dict[str, Any], ask: Ask, *, caller: str, **rest: Any
    ) -> Job:
        """A new job; the checks are done."""
        job = Job(
            project=project,
            region=region,
            id=self.world.new_id(),
            serial=next(self._serials),
            document=document,
            **rest,
        )
        job.life = Life(
            ask=ask,
            link=Link(self.shares, job, self.world),
            endings=Endings(project_number=project.number, job_id=job.id, region=region),
            settings=self.settings,
            fate=self._fate_of(document["displayName"]),
            created=self.world.clock.now(),
        )
        self.jobs[job.id] = job
        self.world.ledger.write("create", job.name, caller=caller, detail=document["displayName"])
        job.life.begin()
        self.changed(job)
        return job

    def find(self, project: Project, region: str, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None or job.project is not project or job.region != region:
            name = f"projects/{project.number}/locations/{region}/customJobs/{job_id}"
            raise ApiError(404, f"The CustomJob {name} is not found.")
        return job

    def of(self, project: Project, region: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.project is project and job.region == region]

    def changed(self, job: Job) -> None:
        """Something happened to the job: log it, plan its next step, let the queued ones look again."""
        life = job.life
        untold = life.history[job.told :]
        job.told = len(life.history)
        for state in untold:
            self._tell(job, state)
        if life.refusals > job.vain and life.phase is Phase.CAPACITY:
            self.say(job, f"Resources are insufficient in region: {job.region}")
        job.vain = life.refusals
        if untold and life.state in TERMINAL:
            self.look_again()
        if job.event is not None:
            job.event.cancel()
        due = life.next_due()
        job.event = None if due is None else self.world.clock.at(due, lambda: self._due(job))
        self.world.clock.changed()

    def look_again(self) -> None:
        """Let every queued job ask for its quota, in the order of their creation."""
        for job in list(self.jobs.values()):
            if job.life.phase is Phase.QUOTA:
                job.life.advance(self.world.clock.now())
                self.changed(job)

    # what happens to jobs, for tests and for live mode; each takes the id or the job

    def cancel(self, job: Job | str) -> None:
        self._do(job, "cancel")

    def preempt(self, job: Job | str) -> None:
        """Take the job's Spot machines away."""
        self._do(job, "preempt")

    def fail_internally(self, job: Job | str) -> None:
        """Let the service itself fail at the job."""
        self._do(job, "internal_error")

    def put(self, job: Job | str, state: State, ending: Ending | None = None) -> None:
        """Put the job into a state by hand."""
        with self.world.lock:
            job = self._job(job)
            job.life.put(state, self.world.clock.now(), ending)
            self.changed(job)

    def replica_exited(self, job: Job | str, replica: str, status: int, termination: str = "") -> None:
        """A replica's process has ended."""
        with self.world.lock:
            job = self._job(job)
            job.life.replica_exited(replica, status, self.world.clock.now(), termination)
            self.changed(job)

    def all_replicas_gone(self, job: Job | str) -> None:
        """Every process of a job that was told to stop has ended."""
        self._do(job, "all_replicas_gone")

    def write_log(
        self,
        job: Job | str,
        task: str,
        text: str,
        *,
        severity: str = "INFO",
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """A line of a replica's output, as the log agent of the training VM writes it.

        payload: the line's own JSON object, when it was one.
        """
        with self.world.lock:
            job = self._job(job)
            if job.document["jobSpec"].get("serviceAccount") in self.deaf_accounts:
                return
            self.world.part(Logs).write(
                job.project,
                task,
                resource=_resource(job, task),
                payload={"message": text, "levelname": severity} if payload is None else payload,
                severity=severity,
                labels={"ml.googleapis.com/endpoint": "", "compute.googleapis.com/resource_name": task},
            )

    def say(self, job: Job | str, text: str, *, severity: str = "INFO", state: str = "") -> None:
        """A line of the service itself, as GitHub's cortex-data-foundation#42 shows it (2026-11-22)."""
        with self.world.lock:
            job = self._job(job)
            self.world.part(Logs).write(
                job.project,
                f"ml.googleapis.com%2F{job.id}",
                resource=_resource(job, "service"),
                text=text,
                severity=severity,
                labels={
                    "ml.googleapis.com/endpoint": "",
                    **({"ml.googleapis.com/job_state": state} if state else {}),
                },
            )

    def _do(self, job: Job | str, what: str) -> None:
        with self.world.lock:
            job = self._job(job)
            getattr(job.life, what)(self.world.clock.now())
            self.changed(job)

    def _job(self, job: Job | str) -> Job:
        return job if isinstance(job, Job) else self.jobs[job.rpartition("/")[2]]

    def _due(self, job: Job) -> None:
        job.life.advance(self.world.clock.now())
        self.changed(job)

    def _fate_of(self, display_name: str) -> Fate:
        return next((fate for name, fate in self._fates if name in ("", display_name)), Fate())

    def _tell(self, job: Job, state: State) -> None:
        self.world.ledger.write(state.name.lower(), job.name)
        error = job.life.error.message if state is State.FAILED and job.life.error else ""
        self.say(
            job,
            error or SAID.get(state, state.value),
            severity="ERROR" if error else "INFO",
            state="QUEUED" if state is State.PENDING else state.name,
        )


def _resource(job: Job, task: str) -> dict[str, Any]:
    """Whose line it is."""
    labels = {"job_id": job.id, "project_id": job.project.id, "task_name": task}
    return {"type": "ml_job", "labels": labels}
