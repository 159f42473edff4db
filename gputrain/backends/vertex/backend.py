"""`VertexAI`: custom jobs, placed in one of some regions, each made exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import attrs

from gputrain.arguments import refusing
from gputrain.backends.base import JobRef, LogPage, Request, Start
from gputrain.backends.google import GoogleBackend
from gputrain.backends.vertex import identity, logs, offers, preflight, render
from gputrain.backends.vertex.gcloud import to_gcloud
from gputrain.backends.vertex.identity import create_once, found_no_room
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.locks import Locks
from gputrain.backends.vertex.outcome import JobEnds
from gputrain.backends.vertex.recorder import CustomJobRecorder, asked_last, lent, to_come
from gputrain.backends.vertex.settings import (
    ROWS,
    NfsMount,
    ReductionServer,
    Transport,
    VertexSettings,
    read_settings,
)
from gputrain.backends.vertex.states import SeenJob
from gputrain.backends.vertex.waiting import Reasons
from gputrain.backends.vertex.watch import RegionWatch
from gputrain.backends.vertex.whereabouts import MOVED_S, Whereabouts, lost
from gputrain.catalog import Service
from gputrain.errors import JobLostError
from gputrain.gcp import LABEL_GANG, Access, Api, MissingError, Objects
from gputrain.gcp.endpoints import asked_for
from gputrain.gcp.listing import listing_of
from gputrain.gcp.pace import Pace
from gputrain.gcp.registry import by_digest, pinned
from gputrain.gcp.shared import Found, Shared
from gputrain.gcp.uploads import Progress
from gputrain.lifecycle import Observation, State
from gputrain.planning import Candidate, Fact, GcloudJob, Supply
from gputrain.preflight import Checks
from gputrain.quota.book import Book
from gputrain.records import BucketBoard
from gputrain.spec import TrainingSpec
from gputrain.spec.gcloud import read_config


class VertexAI(GoogleBackend[VertexSettings]):
    """Runs jobs as Vertex AI custom jobs.

    Args:
        project: the project's id.
        region: where to run.
        regions: where to run, in order of preference; the bucket lies in the first.
        bucket: ``gs://bucket`` or ``gs://bucket/prefix`` of this project, for code, locks and results.
            Needed to submit, not to watch.
        image_repository: where images that are built for jobs are kept, ``LOCATION-docker.pkg.dev/PROJECT/
            NAME``; the repository ``gputrain`` of the first region unless said.
        service_account: the account that jobs run as; without one, Vertex AI's own agent.
        network: full name of a peered VPC network.
        network_attachment: full name of a Private Service Connect attachment, instead of a network.
        tensorboard: full name of a TensorBoard instance; needs a service account.
        persistent_resource: id of machines that are there already.
        kms_key: full name of a key that encrypts what the job keeps.
        management_fee: what Vertex AI takes on top of Compute Engine's on-demand price, as a share of it: 0.2
            for 20 %. Your price list has it; without it prices are lower bounds, and ``max_cost`` is refused.
        disk_gib: size of each machine's boot disk.
        disk_type: its type; pd-ssd, or hyperdisk-balanced where the machine takes nothing else.
        reduction_server: extra machines that sum gradients, for jobs of several nodes.
        enable_web_access: let people open a terminal in running containers, from the job's page.
        nfs_mounts: shares that containers see; they need a network.
        experiment, experiment_run: full names of the contexts that the job is filed under.
        transport: ``rest`` or ``grpc``.
        endpoints: where Google's APIs are; `gputrain.emulator`'s, for a trial. Without them, an emulator's
            where ``$GPUTRAIN_ENDPOINT`` names one, and then without credentials.
        credentials: google.auth credentials; this environment's default ones unless given.
        progress: called with the bytes of code sent so far and the total.

    Raises:
        SpecError: with all faults of the arguments.

    >>> VertexAI(project="my-project", region="us-central1").supply.backend
    'vertex'
    """

    _service = Service.VERTEX

    @refusing(ROWS)
    def __init__(
        self, project: str, region: str | None = None, *,
        regions: Sequence[str] | None = None, bucket: str | None = None,
        image_repository: str | None = None, service_account: str | None = None,
        network: str | None = None, network_attachment: str | None = None,
        tensorboard: str | None = None, persistent_resource: str | None = None, kms_key: str | None = None,
        management_fee: float | None = None, disk_gib: int = 100, disk_type: str | None = None,
        reduction_server: ReductionServer | None = None, transport: str | Transport = Transport.REST,
        enable_web_access: bool = False, nfs_mounts: Sequence[NfsMount] = (),
        experiment: str | None = None, experiment_run: str | None = None,
        endpoints: Any = None, credentials: Any = None, progress: Progress | None = None,
        sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        settings = read_settings(
            project=project, region=region, regions=regions, bucket=bucket, image_repository=image_repository,
            service_account=service_account, network=network, network_attachment=network_attachment,
            tensorboard=tensorboard, persistent_resource=persistent_resource, kms_key=kms_key,
            management_fee=management_fee, disk_gib=disk_gib, disk_type=disk_type,
            reduction_server=reduction_server, transport=transport, enable_web_access=enable_web_access,
            nfs_mounts=nfs_mounts, experiment=experiment, experiment_run=experiment_run, endpoints=endpoints,
            credentials=credentials, progress=progress, sleep=sleep, now=now,
        )  # fmt: skip
        access = Access(project=project, **asked_for(endpoints, credentials), sleep=sleep, now=now)
        super().__init__(settings, access, progress)
        self._jobs = JobService(access=access, transport=settings.transport)
        self._locks = Locks(self._jobs, settings.bucket)
        latest = partial(asked_last, self._locks)
        self._outcome = JobEnds(access, self._locks, latest)
        self._reasons = Reasons(access)
        self._whereabouts = Whereabouts(self._jobs, settings, self._locks.holder, latest)
        self._recorder = None if settings.bucket is None else CustomJobRecorder(
            settings=settings, board=BucketBoard(access, settings.bucket),
            whereabouts=self._whereabouts, locks=self._locks,
        )  # fmt: skip
        self._moved: Shared[str, SeenJob] = Shared(fresh_s=MOVED_S, now=now)
        self._watches: dict[str, RegionWatch] = {}
        self._turns = Pace(each_s=logs.CALL_S, now=now)

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
        return offers.supply(self._settings)

    def _fact(self, one: Candidate, book: Book, found: Mapping[str, Found]) -> Fact:
        return offers.fact(one, book, found)

    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate], job_id: str) -> Checks:  # noqa: ARG002
        """What jobs need, or this one: looked at all at once; nothing is made."""
        return preflight.preflight(self._access, self._settings, spec, wanted)

    def render(self, start: Start) -> Request:
        """A draft of the custom job that would be made. Pure."""
        place, job_id = start.candidate.place, start.job_id
        job = render.custom_job(start, self._settings, self._addresses(Api.STORAGE, Api.SECRETMANAGER))
        body = {"parent": f"projects/{self._settings.project}/locations/{place}", "customJob": job}
        return Request(ref=self._ref(place, job_id), candidate=start.candidate, body=body, names=(job_id,))

    def complete(self, request: Request) -> Request:
        """The request as it is sent: with its image by digest."""
        body = render.with_images(request.body, lambda image: pinned(self._access, image))
        return attrs.evolve(request, body=body, image=by_digest(render.image_of(body)))

    def to_gcloud(self, request: Request) -> GcloudJob:
        """The job as a file and a command for gcloud."""
        return to_gcloud(request.body)

    def create(self, request: Request) -> JobRef:
        """Make the job. Vertex AI may say only later that a region has no machines; a look then says so.

        Raises:
            CapacityError: this region has no such machines.
            AccessError, RequestError: as Vertex AI answers.
            TransientError: no answer came, and no job was seen; submit again with the same key.
        """
        job, job_id = request.body["customJob"], request.ref.name
        with self._reader.corrected():
            seen = create_once(self._jobs, request.ref.place, job, job_id, job["labels"].get(LABEL_GANG, ""))
        self._whereabouts.note(job_id, seen.resource)
        self._watch(seen.region).know(seen)
        return request.ref

    def recorder(self) -> CustomJobRecorder | None:
        """The records of this bucket; None where none was named, which is enough to watch."""
        return self._recorder

    def observe(self, ref: JobRef) -> Observation:
        """One look at the job; many jobs of a region share a call.

        Raises:
            JobLostError: there is no such job, or it was deleted.
        """
        seen = self._look(ref)
        if winner := self._outcome.superseded_by(seen):
            self._whereabouts.follow(ref, seen, winner)
            seen = self._look(ref)
        elif self._outcome.came_to_nothing(seen):
            seen = self._moved.get(ref.name, lambda: self._whereabouts.found_anew(ref))
        told = self._reasons.tell(seen, self._outcome.observe(seen))
        is_placeless = found_no_room(seen) or (told.state is State.CANCELLED and told.started_at is None)
        return to_come(self._locks, seen, told) if is_placeless and self._recorder is None else told

    def tidy(self, ref: JobRef, seen: Observation) -> None:  # noqa: ARG002  # lists tell of the others
        """End other jobs of the id that were seen to go on, once the lock says which one counts."""
        if self._whereabouts.is_doubled(ref.name):
            kept = self._whereabouts.found_anew(ref)
            identity.cancel_extras(self._jobs, self._whereabouts.all(ref), kept, self._locks.holder)

    def logs(self, ref: JobRef, cursor: str = "") -> LogPage:
        """Lines that all nodes wrote since ``cursor``, late ones included. Raises as `observe`."""
        seen = self._look(ref)
        if not seen.has_ended and not self._turns.take(ref.name, is_continued=logs.is_continued(cursor)):
            return LogPage(lines=(), cursor=cursor)
        return logs.read(self._access, seen, cursor)

    def cursor_near_end(self, ref: JobRef, lines: int) -> str:
        """As of `FindsTheEnd`, by the times of the last lines. Raises as `observe`."""
        return logs.near_end(self._access, self._look(ref), lines)

    def cancel(self, ref: JobRef) -> None:
        """Ask every job of the id to stop, wherever it is; nobody starts it again. Raises as `observe`.

        One that was asked for a moment ago is waited for; one that comes later still does nothing.

        Raises:
            AccessError, RequestError, TransientError: that it is over could not be written down.
        """
        found = self._whereabouts.settled(ref, None if self._recorder is None else self._recorder.board)
        live = [seen for seen in found if not seen.has_ended]
        ends = all(found_no_room(seen) or seen.was_cancelled for seen in found)
        recorder = self._recorder
        if recorder is None and ends and (full := next(filter(found_no_room, found), None)):
            recorder = lent(self._whereabouts, self._locks, self._settings, full)
        refused = recorder.end(ref.name)[1] if recorder is not None and (live or ends) else None
        if recorder is not None and not (live or ends):
            recorder.keep_key(ref, found)
        for seen in live:
            identity.end(self._jobs, seen)
        if refused is not None:
            raise refused

    def find(self, *, name: str = "") -> tuple[JobRef, ...]:
        """Jobs of ours in these regions, newest first. PartialListError where some could not be listed."""
        listing, found = self._whereabouts.find(name), dict[str, JobRef]()
        for seen in listing.seen:  # one id is one job, also where other regions had no room
            made_at = seen.created_at.timestamp() if seen.created_at else 0.0
            found.setdefault(seen.job_id, attrs.evolve(self._ref(seen.region, seen.job_id), made_at=made_at))
        return listing_of(found.values(), listing.left_out).whole("list the jobs of Vertex AI")

    def _asks(self, ref: JobRef) -> tuple[Objects, str]:
        return self._locks.beside(self._look(ref))

    def _ref(self, region: str, job_id: str) -> JobRef:
        return JobRef(backend=self.name, project=self._settings.project, place=region, name=job_id)

    def _look(self, ref: JobRef) -> SeenJob:
        try:
            resource = self._whereabouts.of(ref)
        except JobLostError:
            asked = None if self._recorder is None else self._recorder.asked_for(ref)
            if asked is None:
                raise
            return asked
        try:
            return self._watch(resource.split("/")[3]).look(resource)
        except MissingError as error:
            self._whereabouts.forget(ref.name)
            raise lost(ref) from error

    def _watch(self, region: str) -> RegionWatch:
        return self._watches.get(region) or self._watches.setdefault(region, RegionWatch(self._jobs, region))
