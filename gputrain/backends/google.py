"""What backends of Google's services have in common: settings, asks of a spec, facts, code, records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from gputrain import catalog, causes
from gputrain.arguments import function
from gputrain.backends.base import Backend, Bundle, JobRef
from gputrain.backends.results import MOST_BYTES, AsksForStacks, node_of, read_standings
from gputrain.catalog import ANY_RESERVATION, Service, Shape
from gputrain.causes import Cause
from gputrain.entrypoint import contract
from gputrain.errors import (
    AccessError,
    CapacityError,
    GputrainError,
    QuotaExceededError,
    RequestError,
    TransientError,
)
from gputrain.fields import Field, matching, refused
from gputrain.gcp import Access, Api, Objects, endpoints, reservations
from gputrain.gcp.buckets import BucketPrefix, check_bucket, home_of
from gputrain.gcp.endpoints import emulator_of, on_trial
from gputrain.gcp.shared import Found
from gputrain.gcp.uploads import Progress
from gputrain.images import ImageHome, Works
from gputrain.planning import Candidate, Fact
from gputrain.quota import Quotas
from gputrain.quota.book import Book, in_short
from gputrain.quota.reader import Reader
from gputrain.records import CANCELLED, Ask, BucketBoard, Code, Record, RecordError, ended
from gputrain.spec import GpuRequest, TrainingSpec
from gputrain.staging import parcels, resolve

RESERVATION_KEY = "compute.googleapis.com/reservation-name"


PROJECT = Field(
    matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]|[a-z0-9.]+:[a-z][a-z0-9-]+"),
    "a project's id, 6 to 30 small letters, digits and hyphens", "project='my-project'", is_needed=True,
)  # fmt: skip
IMAGE_REPOSITORY = Field(
    ImageHome.parse, "a repository of Artifact Registry",
    "image_repository='us-central1-docker.pkg.dev/my-project/my-repository'",
)  # fmt: skip


OBJECTS = {
    **endpoints.ROWS,
    "progress": Field(
        function, "a function of the bytes sent and of all there are", "leave it out, or give print"
    ),
    "sleep": Field(function, "a function of seconds", "leave it out: time.sleep", is_needed=True),
    "now": Field(function, "a function that tells seconds", "leave it out: time.time", is_needed=True),
}
"""Arguments that are no settings, and how each is read."""
REGION = matching(r"[a-z]+-[a-z]+\d+")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9._]{0,126}[a-z0-9])?")


REFUSALS = ((CapacityError, causes.STOCKOUT_REGION), (QuotaExceededError, causes.QUOTA_REGION))
"""What Google tells after it has taken a job, in the words of a refusal."""


def cause_of(refusal: type[GputrainError]) -> Cause | None:
    """Why a job ended that was taken, and then refused like this; None: no refusal of a place's."""
    return next((cause for kind, cause in REFUSALS if issubclass(refusal, kind)), None)


@attrs.frozen(kw_only=True)
class GoogleSettings:
    """What a project chooses once for all its jobs."""

    project: str
    regions: tuple[str, ...]
    bucket: BucketPrefix | None
    image_repository: ImageHome | None

    @property
    def home(self) -> str:
        """The region that the bucket lies in: the first one."""
        return self.regions[0]

    @property
    def home_label(self) -> str:
        """What `gputrain.gcp.LABEL_HOME` says on all that is made for these; empty without a bucket."""
        return "" if self.bucket is None else home_of(self.project, self.bucket)

    @property
    def code_bucket(self) -> BucketPrefix:
        """The bucket, which a submit needs. SpecError where none was named."""
        if self.bucket is None:
            what, fix = "code travels through a bucket, and none is named", "bucket='gs://my-bucket'"
            raise refused("bucket", None, "a bucket of your project", fix, what=what)
        return self.bucket

    def check_ref(self, ref: JobRef) -> None:
        """As of `ChecksRefs`: by the project, as ids say nothing of it."""
        self._check("project", ref, ref.project, self.project)

    @staticmethod
    def _check(field: str, ref: JobRef, named: str, own: str) -> None:
        if named != own:
            allowed, fix = f"a job of the {field} {own}", "gputrain.attach(uri) finds it by itself"
            raise refused("uri", ref.uri, allowed, fix, what="it is no job of this backend")


S = TypeVar("S", bound=GoogleSettings)


class GoogleBackend(Backend, AsksForStacks, Generic[S]):
    """A backend whose jobs find their code in a bucket, and count against a project's quotas."""

    _service: Service

    def __init__(self, settings: S, access: Access, progress: Progress | None) -> None:
        self._settings = settings
        self._access = access
        self._progress = progress
        self._reader = Reader(access, self._service, settings.regions)

    def __repr__(self) -> str:
        told = self._settings
        where = on_trial(self.trial)
        return f"{type(self).__name__}(project={told.project!r}, regions={list(told.regions)!r}){where}"

    @property
    def trial(self) -> str:
        """The address of the emulator on this machine that stands for Google; empty: none does."""
        return emulator_of(self._access.endpoints)

    def check_ref(self, ref: JobRef) -> None:
        """As of `ChecksRefs`: before anything is asked, as another's job may bear the same id."""
        self._settings.check_ref(ref)

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """Quotas, the reservation that is named, and what else the service tells beforehand."""
        if not wanted:
            return {}
        asked = {**self._reader.questions(), **reservation_questions(self._access, wanted)}
        found = self._access.looks.ask({**asked, **self._questions(wanted)})
        book = self._reader.book(found)
        return {one: self._fact(one, book, found) for one in wanted}

    def _questions(self, _wanted: Sequence[Candidate]) -> Mapping[str, Callable[[], Any]]:
        return {}

    def _fact(self, one: Candidate, book: Book, found: Mapping[str, Found]) -> Fact:
        raise NotImplementedError

    def quotas(self, gpus: Sequence[GpuRequest] = (), **size: Any) -> Quotas:
        """How jobs stand with the service's quotas; arguments as of `Trainer.quotas`, already read."""
        return self._reader.quotas(gpus, **size)

    def stage(self, spec: TrainingSpec, job_id: str) -> Bundle:  # noqa: ARG002  # code is named by its content
        """Pack the code; it is sent when the job is submitted, and only if the bucket does not have it.

        Raises:
            SpecError: no bucket was named, or something in the folder cannot travel.
            RequestError, PermissionDeniedError: the bucket is not there, not ours, or elsewhere.
        """
        bucket, source = self._settings.code_bucket, resolve(spec, installed=False)
        check_bucket(self._access, bucket, self._settings.home)
        packed = parcels.pack(source)
        where = bucket.uri("code", packed.name)
        return Bundle(location=where, argv=source.argv, sha256=packed.sha256, content=packed.data)

    def send(self, bundle: Bundle) -> None:
        """Put the code into the bucket, where it lacks it.

        Raises:
            RequestError, AccessError: the code cannot be sent, or there is none to send.
        """
        bucket = self._settings.code_bucket
        parcels.send(self._access, bucket, bundle.location, bundle.content, progress=self._progress)

    @property
    def works(self) -> Works:
        """Where this project's images are built: in the first region, and kept in ``image_repository``."""
        access, region = self._access, self._settings.home
        home = self._settings.image_repository or ImageHome.usual(access.project, region)
        return Works(access=access, home=home, bucket=self._settings.code_bucket, region=region)

    def _asks(self, ref: JobRef) -> tuple[Objects, str]:
        """Where the agents of a job look, and how the names of questions and answers begin there."""
        raise NotImplementedError

    def ask_for_stacks(self, ref: JobRef, nonce: str) -> None:
        """Write the question. Raises as `observe`, and as Cloud Storage answers."""
        objects, prefix = self._asks(ref)
        objects.write(prefix + contract.STACKS_ASK, nonce.encode(), if_generation=None)

    def stacks(self, ref: JobRef, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """The answers that are there. Raises as `observe`, and as Cloud Storage answers."""
        objects, prefix = self._asks(ref)
        found = objects.list(f"{prefix}{contract.STACKS_ASK}-{nonce}-").seen
        named = {node: one.name for one in found if (node := node_of(one.name, nonce)) is not None}
        read = {node: objects.read(name, most_bytes=MOST_BYTES) for node, name in named.items()}
        return {node: read_standings(one.content, node) for node, one in read.items() if one is not None}

    def _addresses(self, *apis: Api) -> dict[str, str]:
        """Where a job finds these APIs."""
        return {api.value: self._access.url(api) for api in apis}


@attrs.define(kw_only=True, eq=False)
class BucketRecorder(Generic[S]):
    """What the recorders of both services know: settings that a job keeps, and code by its hash."""

    settings: S
    board: BucketBoard
    kept: ClassVar[tuple[str, ...]]
    """The settings that say what a job is and may do."""

    @property
    def choices(self) -> Mapping[str, str]:
        """What jobs are and may do by these settings."""
        return {name: str(getattr(self.settings, name)) for name in self.kept}

    def code(self, code: Code) -> Bundle | None:
        """The code of that hash in this backend's own bucket; to send it sees that it is there."""
        if not code.sha256:
            return None
        location = self.settings.code_bucket.uri("code", f"{code.sha256}.tar.gz")
        return Bundle(location=location, argv=code.argv, sha256=code.sha256)

    def end(self, job_id: str) -> tuple[Record | None, GputrainError | None]:
        """Have nobody start a job again: its record as it then is, None where there is none or it was
        refused; and what was refused, which keeps nothing from ending what runs."""
        try:
            return self._end(job_id), None
        except (AccessError, RequestError, TransientError, RecordError) as error:
            error.what = f"what runs of {job_id} ends, but a watcher may start it again: {error.what}"
            return None, error

    def shut(self, job_id: str) -> GputrainError | None:
        """As of `BarsLate`."""
        return self.end(job_id)[1]

    def _end(self, job_id: str) -> Record | None:
        return ended(self.board, job_id, CANCELLED)


def addressed(ask: Ask) -> Ask:
    """An ask of a record, whose place and names may stand in an address.

    Raises:
        RecordError: somebody else wrote it, as they may not.
    """
    for one in (ask.way.place, *ask.names):
        if not _NAME.fullmatch(one):
            raise RecordError(
                "what is kept of the job is no record",
                why=f"{one[:40]!r} is the name of nothing on Google Cloud",
                fix="find out who can write to the bucket",
            )
    return ask


def shape_of(one: Candidate, service: Service) -> Shape:
    """The catalog's row for a candidate: the one fact that machine and accelerator are written from."""
    return _shape_of(one.gpu, one.gpu_count, one.machine_type, service)


@lru_cache(maxsize=1024)
def _shape_of(gpu: str | None, count: Any, machine_type: str, service: Service) -> Shape:
    return catalog.shapes(gpu, count, machine_type=machine_type, service=service)[0]


def reservation_questions(access: Access, wanted: Sequence[Candidate]) -> dict[str, Callable[[], Any]]:
    """What to ask about the reservations that candidates name, for `Access.looks`."""
    names = dict.fromkeys(one.reservation for one in wanted if one.reservation not in (None, ANY_RESERVATION))
    return {
        _reserved(name): lambda name=name: reservations.read(access, name)  # type: ignore[misc]
        for name in names
    }


def in_reservation(one: Candidate, shape: Shape, zone: str, found: Mapping[str, Found]) -> tuple[str, str]:
    """Why the reservation named does not carry the job in a zone, and what is not known of it."""
    if one.reservation in (None, ANY_RESERVATION):
        return "", ""
    told = found[_reserved(one.reservation)]
    if told.value is None:
        why = in_short(told.error) if told.error else "the list is not whole"
        return "", f"{_reserved(one.reservation)}: {why}"
    attached = (shape.gpu.accelerator_type, shape.api_gpu_count) if shape.is_attached else None
    return reservations.judged(told.value, one.reservation, zone, one.machine_type, attached, one.num_nodes)


def _reserved(name: str) -> str:
    return f"reservation {name}"
