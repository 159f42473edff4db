"""`VertexAI`: custom jobs, placed in one of some regions, each made exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from gputrain.backends.base import Backend, Bundle, JobRef, LogPage, Request
from gputrain.backends.vertex import logs, offers, once, preflight, render
from gputrain.backends.vertex.availability import Availability
from gputrain.backends.vertex.code import Code
from gputrain.backends.vertex.elsewhere import Elsewhere, waiting
from gputrain.backends.vertex.gcloud import to_gcloud
from gputrain.backends.vertex.jobs import Jobs
from gputrain.backends.vertex.locks import Locks
from gputrain.backends.vertex.outcome import Outcome
from gputrain.backends.vertex.settings import ReductionServer, Transport, read_settings
from gputrain.backends.vertex.states import Seen
from gputrain.backends.vertex.watch import Watch
from gputrain.backends.vertex.whereabouts import Whereabouts, lost
from gputrain.errors import CapacityError, RequestError
from gputrain.gcp import Access, Api, MissingError
from gputrain.gcp.shared import Pace
from gputrain.lifecycle import Observation
from gputrain.planning import Candidate, Fact, GcloudJob, Supply
from gputrain.preflight import Checks
from gputrain.quota import Quotas
from gputrain.spec import GpuRequest, TrainingSpec
from gputrain.spec.gcloud import read_config
from gputrain.staging.bucket import Progress
from gputrain.staging.turns import Turns


class VertexAI(Backend):
    """Runs jobs as Vertex AI custom jobs.

    Args:
        project: the project's id.
        region: where to run.
        regions: where to run, in order of preference; the bucket lies in the first.
        bucket: ``gs://bucket`` or ``gs://bucket/prefix`` of this project, for code, locks and results.
            Needed to submit, not to watch.
        service_account: the account that jobs run as; without one, Vertex AI's own agent.
        network: full name of a peered VPC network.
        network_attachment: full name of a Private Service Connect attachment, instead of a network.
        tensorboard: full name of a TensorBoard instance; needs a service account.
        persistent_resource: id of machines that are there already.
        kms_key: full name of a key that encrypts what the job keeps.
        disk_gib: size of each machine's boot disk.
        disk_type: its type; pd-ssd, or hyperdisk-balanced where the machine takes nothing else.
        reduction_server: extra machines that sum gradients, for jobs of several nodes.
        transport: ``rest`` or ``grpc``.
        endpoints: where Google's APIs are; `gputrain.emulator`'s, for a trial.
        credentials: google.auth credentials; this environment's default ones unless given.
        progress: called with the bytes of code sent so far and the total.

    Raises:
        SpecError: with all faults of the arguments.

    >>> VertexAI(project="my-project", region="us-central1").supply.backend
    'vertex'
    """

    def __init__(
        self,
        project: str,
        region: str | None = None,
        *,
        regions: Sequence[str] | None = None,
        bucket: str | None = None,
        service_account: str | None = None,
        network: str | None = None,
        network_attachment: str | None = None,
        tensorboard: str | None = None,
        persistent_resource: str | None = None,
        kms_key: str | None = None,
        disk_gib: int = 100,
        disk_type: str | None = None,
        reduction_server: ReductionServer | None = None,
        transport: str | Transport = Transport.REST,
        endpoints: Any = None,
        credentials: Any = None,
        progress: Progress | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = read_settings(
            project=project, region=region, regions=regions, bucket=bucket, service_account=service_account,
            network=network, network_attachment=network_attachment, tensorboard=tensorboard,
            persistent_resource=persistent_resource, kms_key=kms_key, disk_gib=disk_gib, disk_type=disk_type,
            reduction_server=reduction_server, transport=transport,
        )  # fmt: skip
        reach = {} if endpoints is None else {"endpoints": endpoints}
        self._access = Access(project=project, credentials=credentials, sleep=sleep, now=now, **reach)
        home = self._settings.bucket
        self.turns = None if home is None else Turns(access=self._access, bucket=home)
        self._jobs = Jobs(access=self._access, transport=self._settings.transport)
        self._code = Code(self._access, self._settings, progress)
        self._locks = Locks(self._jobs, self._settings.bucket)
        self._outcome = Outcome(self._access, self._locks)
        self._lock = threading.Lock()
        self._elsewhere = Elsewhere(self._jobs, self._settings.regions, self._holder)
        self._whereabouts = Whereabouts(self._jobs, self._settings.regions, self._elsewhere, self._holder)
        self._watches: dict[str, Watch] = {}
        self._turns = Pace(each_s=logs.CALL_S, now=now)
        self._facts = Availability(self._access, self._settings.regions)

    def __repr__(self) -> str:
        return f"VertexAI(project={self._settings.project!r}, regions={list(self._settings.regions)!r})"

    @classmethod
    def for_ref(cls, ref: JobRef, **arguments: Any) -> VertexAI:
        """The backend that a job's name speaks of, with the default credentials unless some are given."""
        return cls(ref.project, ref.place, **arguments)

    @classmethod
    def from_gcloud(cls, config: str | Mapping[str, Any], **arguments: Any) -> VertexAI:
        """The backend that a gcloud ``config.yaml`` speaks of; the job in it is `TrainingSpec.from_gcloud`'s.

        Args:
            config: the file's text, or what it holds.
            **arguments: of `VertexAI`, such as project and region, which such a file does not name.

        Raises:
            SpecError: with everything in the file that cannot be said, or all faults of the arguments.
        """
        return cls(**{**read_config(config).settings, **arguments})

    @property
    def name(self) -> str:
        """``vertex``."""
        return offers.NAME

    @property
    def poll_s(self) -> float:
        """A single job's end is seen within two seconds; many jobs share their looks."""
        return 1.5

    @property
    def supply(self) -> Supply:
        """The shapes that train on Vertex AI in these regions, and what it cannot honour."""
        return self._supply

    @cached_property
    def _supply(self) -> Supply:
        return offers.supply(self._settings.regions)

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """Quotas, and the reservation that is named. Vertex AI publishes no capacity."""
        return self._facts.facts(wanted)

    def quotas(self, gpus: Sequence[GpuRequest] = (), **size: Any) -> Quotas:
        """How jobs stand with Vertex AI's quotas; arguments as of `Trainer.quotas`, already read."""
        return self._facts.quotas(gpus, **size)

    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate], job_id: str) -> Checks:  # noqa: ARG002
        """What jobs need, or this one: looked at all at once; nothing is made."""
        return preflight.preflight(self._access, self._settings, spec, wanted)

    def stage(self, spec: TrainingSpec, job_id: str) -> Bundle:  # noqa: ARG002  # code is named by its content
        """Pack the code; it is sent when the job is created, and only if the bucket does not have it.

        Raises:
            SpecError: no bucket was named, or something in the folder cannot travel.
            RequestError, PermissionDeniedError: the bucket is not there, not ours, or elsewhere.
        """
        return self._code.pack(spec)

    def render(self, spec: TrainingSpec, candidate: Candidate, job_id: str, bundle: Bundle) -> Request:
        """The custom job that would be made. Pure."""
        apis = {"storage": Api.STORAGE, "secretmanager": Api.SECRETMANAGER}
        addresses = {name: self._access.url(api) for name, api in apis.items()}
        job = render.custom_job(spec, candidate, job_id, bundle, settings=self._settings, addresses=addresses)
        parent = f"projects/{self._settings.project}/locations/{candidate.place}"
        body = {"parent": parent, "customJob": job}
        return Request(ref=self._ref(candidate.place, job_id), candidate=candidate, body=body)

    def to_gcloud(self, request: Request) -> GcloudJob:
        """The job as a file and a command for gcloud. The code is sent, so that both work as they stand.

        Raises:
            AccessError, RequestError: the bucket does not take the code.
        """
        return to_gcloud({**request.body, "customJob": self._code.sent(request.body["customJob"])})

    def create(self, request: Request) -> JobRef:
        """Make the job, or take up the one of this id that is there already, in whichever region.

        Vertex AI says only after a while that a region has no machines. The same id submitted again then
        passes that region over for half an hour, and the next candidate has its turn.

        Raises:
            CapacityError: this region has no such machines.
            AccessError, RequestError: as Vertex AI answers.
            TransientError: no answer came, and no job was seen; submit again with the same key.
        """
        job_id = request.ref.name
        found, seen = self._there(job_id)
        if seen is None:
            self._check_room(found, request)
            body = self._code.sent(request.body["customJob"])
            with self._facts.corrected():
                seen = once.create_once(self._jobs, request.ref.place, body, job_id, self._holder)
        self._whereabouts.note(job_id, seen.resource)
        return self._ref(seen.region, job_id)

    def known(self, job_id: str) -> JobRef | None:
        """The job of that id in whichever of these regions; None where none is, or none found machines."""
        _, seen = self._there(job_id)
        return None if seen is None else self._ref(seen.region, job_id)

    def observe(self, ref: JobRef) -> Observation:
        """One look at the job; many jobs of a region share a call.

        Raises:
            JobLostError: there is no such job, or it was deleted.
        """
        seen = self._look(ref)
        if winner := self._outcome.superseded_by(seen):
            self._whereabouts.note(ref.name, f"{seen.resource.rpartition('/')[0]}/{winner}")
            seen = self._look(ref)
        observation = self._outcome.observe(seen)
        left = self._elsewhere.untried(seen)
        return waiting(observation, seen.region, left[0]) if left else observation

    def resume(self, ref: JobRef) -> bool:
        """Make a job that found no machines again in the next region; True where that was done.

        `Job.wait` does so by itself. The job keeps its id and its name; the region in the name is the first.
        """
        seen = self._look(ref)
        made = self._elsewhere.move(seen)
        if made is not None:
            self._whereabouts.note(ref.name, made.resource)
        return made is not None

    def logs(self, ref: JobRef, cursor: str = "") -> LogPage:
        """Lines that all nodes wrote since ``cursor``, late ones included. Raises as `observe`."""
        seen = self._look(ref)
        if not seen.has_ended and not self._turns.take(ref.name, is_continued=logs.is_continued(cursor)):
            return LogPage(lines=(), cursor=cursor)
        return logs.read(self._access, seen, cursor)

    def cancel(self, ref: JobRef) -> None:
        """Ask the job to stop; one that has ended stays as it is. Raises as `observe`."""
        seen = self._look(ref)
        if seen.has_ended:
            return
        try:
            self._jobs.cancel(seen.resource)
        except MissingError as error:
            raise lost(ref) from error
        except RequestError:
            if not self._jobs.get(seen.resource).has_ended:  # it ended before the cancel came
                raise

    def find(self, *, name: str = "") -> tuple[JobRef, ...]:
        """Jobs of ours in these regions, newest first."""
        refs = [self._ref(seen.region, seen.job_id) for seen in self._whereabouts.find(name)]
        return tuple(dict.fromkeys(refs))

    def _ref(self, region: str, job_id: str) -> JobRef:
        return JobRef(backend=self.name, project=self._settings.project, place=region, name=job_id)

    def _there(self, job_id: str) -> tuple[tuple[Seen, ...], Seen | None]:
        """All jobs of an id, and the one that counts; those that do nothing are ended."""
        found = once.find_all(self._jobs, self._settings.regions, job_id)
        seen = once.effective(found, self._holder)
        once.cancel_extras(self._jobs, found, seen, self._holder)
        return found, seen

    def _check_room(self, found: Sequence[Seen], request: Request) -> None:
        region, wanted = request.ref.place, request.body["customJob"]
        full = once.lately_full(self._jobs, found, region, wanted, self._access.now())
        if full is not None:
            raise CapacityError(
                f"{region} had no machines for {full.job_id} a short while ago",
                why=full.error,
                fix="allow more regions, GPUs or provisioning models, or try again later",
                place=region,
            )

    def _holder(self, seen: Seen) -> str:
        return self._locks.of(seen).number

    def _look(self, ref: JobRef) -> Seen:
        resource = self._whereabouts.of(ref)
        try:
            return self._watch(resource.split("/")[3]).look(resource)
        except MissingError as error:
            raise lost(ref) from error

    def _watch(self, region: str) -> Watch:
        with self._lock:
            return self._watches.setdefault(region, Watch(self._jobs, region))
