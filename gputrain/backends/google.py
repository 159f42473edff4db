"""What backends of Google's services have in common: settings, facts, code, records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from gputrain import catalog, causes, fields
from gputrain.backends.agent_reports import MOST_BYTES, NodeLogs, node_of, read_standings
from gputrain.backends.base import Backend, Bundle, JobFile, LogPage, Machine, Request, Status
from gputrain.backends.run_reports import BucketLogs, RunReports
from gputrain.catalog import ANY_RESERVATION, ProvisioningModel, Service, Shape
from gputrain.causes import Cause
from gputrain.code import resolve
from gputrain.errors import (
    CapacityError,
    GputrainError,
    PermissionDeniedError,
    QuotaExceededError,
)
from gputrain.fields import Errors, Field, function, invalid, matching, named
from gputrain.google import GoogleClient, Objects, endpoints
from gputrain.google.cache import Found, Pace
from gputrain.google.compute_lists import check_fit, find_reservations
from gputrain.google.endpoints import asked_for, emulator_of, on_emulator
from gputrain.google.storage import BucketPrefix, Progress, check_bucket, owner_id, upload
from gputrain.images import ImageBuilder, ImageRepository
from gputrain.jobstore import BucketStore, JobRecord, JobRef
from gputrain.planning import Candidate, Fact, Supply
from gputrain.quota import Quotas
from gputrain.quota.model import in_short
from gputrain.quota.reader import QuotaReader
from gputrain.runtime import contract
from gputrain.spec import GpuRequest, TrainingSpec

if TYPE_CHECKING:
    from typing_extensions import Self

    from gputrain.doctor import Checks

FEW, LOGS_S = 4, 1.0
"""Of more jobs that are followed, one a second has its log read."""

RESERVATION_KEY = "compute.googleapis.com/reservation-name"
RESERVABLE = (ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND)
"""What machines of a reservation are bought as."""

OBJECTS = {
    **endpoints.ROWS,
    "progress": Field(
        function, "a function of the bytes sent and of all there are", "leave it out, or give print"
    ),
    "sleep": Field(function, "a function of seconds", "leave it out: time.sleep", is_needed=True),
    "now": Field(function, "a function that returns seconds", "leave it out: time.time", is_needed=True),
}
"""Arguments that are no settings, and how each is read."""
ANY_REGION = "any"
FIRST_REGION = "us-central1"
"""Where images are built and kept for jobs of any region."""
REGION = matching(rf"[a-z]+-[a-z]+\d+|{ANY_REGION}")

REFUSALS = ((CapacityError, causes.STOCKOUT_REGION), (QuotaExceededError, causes.QUOTA_REGION),
            (PermissionDeniedError, causes.JOB_PERMISSION))  # fmt: skip


def cause_of(refusal: type[GputrainError]) -> Cause | None:
    """Why a job ended that Google accepted and then refused; None: for no reason of its place."""
    return next((cause for kind, cause in REFUSALS if issubclass(refusal, kind)), None)


@cache
def _everywhere(service: Service) -> tuple[str, ...]:
    shapes = catalog.shapes(service=service)
    return tuple(sorted({region for shape in shapes for region in catalog.regions(shape, service)}))


def setting(
    read: Callable[[Any], Any], expected: str, fix: str, *, is_needed: bool = False, is_kept: bool = True
) -> Any:
    """A setting and how its argument is read, as of `Field`.

    ``is_kept``: it says what a job is and may do, so another process restarts the job only under the same.
    """
    row = Field(read, expected, fix, is_needed=is_needed)
    return attrs.field(metadata={"row": row, "is_kept": is_kept})


def switch(name: str, default: bool, *, is_kept: bool = True) -> Any:
    """As `setting`, of one that is True or False."""
    fix = f"{name}={not default}"
    return setting(fields.instance(bool), "True or False", fix, is_needed=True, is_kept=is_kept)


def account(fix: str) -> Any:
    """The setting of a service account."""
    return setting(named("{word}@{word}"), "an e-mail address", fix)


def of_project(path: str, expected: str, fix: str) -> Any:
    """The setting of a resource by its full name, below ``projects/PROJECT/``."""
    return setting(named(f"projects/{{word}}(?::{{word}})?/{path}"), expected, fix)


def kms_key() -> Any:
    """The setting of a key by its full name."""
    path, fix = "locations/{word}/keyRings/{word}/cryptoKeys/{word}", "locations/R/keyRings/K/cryptoKeys/N"
    return of_project(path, "the key's full name", f"kms_key='projects/P/{fix}'")


@attrs.frozen(kw_only=True)
class GoogleSettings:
    """What a project chooses once for all its jobs: each setting, and how its argument is read."""

    project: str = setting(
        matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]|[a-z0-9.]+:[a-z][a-z0-9-]+"),
        "a project's id, 6 to 30 small letters, digits and hyphens", "project='my-project'",
        is_kept=False,
    )  # fmt: skip
    """Empty where it only plans."""
    regions: tuple[str, ...]
    """As they were named; ``any`` stands for all others of the catalog, the cheapest first."""
    bucket: BucketPrefix | None
    image_repository: ImageRepository | None = setting(
        ImageRepository.parse, "a repository of Artifact Registry",
        "image_repository='us-central1-docker.pkg.dev/my-project/my-repository'", is_kept=False,
    )  # fmt: skip

    @classmethod
    def rows(cls) -> dict[str, Field]:
        """How each argument of the constructor is read."""
        return {one.name: one.metadata["row"] for one in attrs.fields(cls)} | OBJECTS

    @classmethod
    def read(cls, of: str, given: Mapping[str, Any]) -> Self:
        """The settings among the arguments of the constructor ``of``. SpecError: with all faults."""
        rows, faults = cls.rows(), Errors(f"{of}(...)")
        found = fields.read(rows, {name: given[name] for name in rows}, faults)
        found["project"] = found["project"] or ""
        cls.complete(found, faults)
        faults.raise_if_any()
        return cls(**{one.name: found[one.name] for one in attrs.fields(cls)})

    @classmethod
    def complete(cls, found: dict[str, Any], faults: Errors) -> None:
        """Check settings against each other, and fill in those that follow from others."""

    @property
    def home(self) -> str:
        """The region that the bucket lies in: the first one; empty where any may be it."""
        return "" if self.regions[0] == ANY_REGION else self.regions[0]

    @property
    def named_regions(self) -> tuple[str, ...]:
        """Those in the user's order."""
        return tuple(one for one in self.regions if one != ANY_REGION)

    def all_regions(self, service: Service) -> tuple[str, ...]:
        """Those that were named, and for ``any`` all others where the service sells a GPU."""
        if ANY_REGION not in self.regions:
            return self.regions
        return tuple(dict.fromkeys([*self.named_regions, *_everywhere(service)]))

    @property
    def home_label(self) -> str:
        """What `gputrain.google.LABEL_OWNER` says on all that is made for these; empty without a bucket."""
        return owner_id(self.project, self.bucket) if self.project and self.bucket else ""

    def check_project(self) -> None:
        """Raise SpecError where no project was named, which all but a plan needs."""
        if not self.project:
            raise invalid("project", None, "a project's id", "project='my-project'", what="no project")

    @property
    def code_bucket(self) -> BucketPrefix:
        """The bucket, which a submit needs. SpecError where none was named, or no project."""
        if not self.project:
            self.check_project()
        if self.bucket is None:
            what, fix = "no bucket: code is uploaded to one", "bucket='gs://my-bucket'"
            raise invalid("bucket", None, "a bucket of your project", fix, what=what)
        return self.bucket


S = TypeVar("S", bound=GoogleSettings, covariant=True)


class GoogleBackend(Backend, Generic[S]):
    """A backend whose jobs find their code in a bucket, and count against a project's quotas."""

    has_quotas = True
    needed_beyond_plans: tuple[str, ...] = ("project",)
    _service: Service
    _settings_class: type[S]
    _offers: Any
    """The module whose ``supply``, ``questions`` and ``fact`` are the service's."""
    _preflight: Any
    """The module whose ``preflight`` is."""
    _looks: Any
    """Has ``inspect_many`` and ``saw_end_of``."""
    _jobs: Any
    """Has ``launch``, ``terminate``, ``machines`` and ``remove``."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """``given``: the arguments of the constructor, by name."""
        settings = self._settings = self._settings_class.read(type(self).__name__, given)
        reach = asked_for(given["endpoints"], given["credentials"])
        self._access = access = GoogleClient(
            project=settings.project, **reach, sleep=given["sleep"], now=given["now"]
        )
        self._progress: Progress | None = given["progress"]
        self._reader = QuotaReader(
            client=access,
            service=self._service,
            regions=settings.all_regions(self._service),
            **self._quota_options,
        )
        self._turns = Pace(each_s=LOGS_S, few=FEW, now=access.now)
        self.emulator = emulator_of(access.endpoints)
        store = settings.project and settings.bucket
        if isinstance(store, BucketPrefix):
            self.documents = BucketStore(access, store)
        kept = [one.name for one in attrs.fields(type(settings)) if one.metadata.get("is_kept")]
        self.settings = {name: str(getattr(settings, name)) for name in kept}

    def __repr__(self) -> str:
        project, regions = self._settings.project, list(self._settings.regions)
        return f"{type(self).__name__}(project={project!r}, regions={regions!r}){on_emulator(self.emulator)}"

    @classmethod
    def for_job(cls, ref: JobRef, record: JobRecord, **arguments: Any) -> Self:
        """The backend that a job's name speaks of, with the default credentials unless some are given."""
        made: Callable[..., Self] = cls
        regions = tuple(dict.fromkeys(one.region for one in record.options if one.backend == cls.name))
        return made(ref.project, regions=regions, bucket=f"gs://{ref.home}", **arguments)

    @cached_property
    def supply(self) -> Supply:
        """The shapes with GPUs that the service sells in these regions, and what it cannot honour."""
        found: Supply = self._offers.supply(self._settings)
        return found

    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate]) -> Checks:
        self._settings.check_project()
        found: Checks = self._preflight.preflight(self._access, self._settings, spec, wanted)
        return found

    def launch(self, request: Request) -> str:
        handle: str = self._jobs.launch(request)
        return handle

    def terminate(self, record: JobRecord, grace_s: float) -> None:
        self._jobs.terminate(record, grace_s)

    def machines(self, job_id: str = "") -> Sequence[Machine]:
        """As of `Backend`, of this bucket's jobs."""
        found: Sequence[Machine] = self._jobs.machines(job_id) if self._settings.home_label else ()
        return found

    def remove(self, machine: Machine) -> None:
        self._jobs.remove(machine)

    def inspect_many(self, records: Sequence[JobRecord]) -> Mapping[str, Status]:
        found: Mapping[str, Status] = self._looks.inspect_many(records)
        return found

    @property
    def _quota_options(self) -> Mapping[str, Any]:
        """What else of the settings decides which quotas count: fields of `QuotaReader`."""
        return {}

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """Quotas, the reservation that is named, and what else the service says beforehand."""
        if not self._settings.project:
            return {one: Fact(note="no project is named") for one in wanted}
        if not wanted:
            return {}
        named = {one.reservation for one in wanted} - {None, ANY_RESERVATION}
        reserved = {_reserved(name): partial(find_reservations, self._access, name) for name in named if name}
        asked: dict[str, Callable[[], Any]] = {**self._reader.questions(), **reserved}
        asked |= self._offers.questions(self._access, self._settings, wanted)
        found = self._access.looks.ask(asked)
        snapshot = self._reader.snapshot(found)
        return {one: self._offers.fact(one, snapshot, found) for one in wanted}

    def quotas(self, gpus: Sequence[GpuRequest] = (), **size: Any) -> Quotas:
        self._settings.check_project()
        return self._reader.quotas(gpus, **size)

    def package(self, spec: TrainingSpec, job_id: str) -> Bundle:  # noqa: ARG002  # code is named by its content
        """Pack the code; it is sent when the job is submitted, and only if the bucket does not have it."""
        bucket, source = self._settings.code_bucket, resolve(spec, installed=False)
        check_bucket(self._access, bucket, self._settings.home)
        packed = source.pack()
        where = bucket.uri("code", packed.name)
        return Bundle(location=where, argv=source.argv, sha256=packed.sha256, content=packed.data)

    def upload(self, bundle: Bundle) -> None:
        bucket = self._settings.code_bucket
        name = bundle.location.removeprefix(f"gs://{bucket.name}/")
        upload(self._access, bucket, name, bundle.content, progress=self._progress)

    @property
    def image_builder(self) -> ImageBuilder:
        """Where this project's images are built: in the first region, and kept in ``image_repository``."""
        access, region = self._access, self._settings.home or FIRST_REGION
        kept = self._settings.image_repository or ImageRepository.default(access.project, region)
        return ImageBuilder(access=access, repository=kept, bucket=self._settings.code_bucket, region=region)

    def find_code(self, sha256: str, argv: Sequence[str]) -> Bundle | None:
        if not sha256:
            return None
        bucket, name = self._settings.code_bucket, f"{sha256}.tar.gz"
        check_bucket(self._access, bucket)
        if Objects(self._access, bucket.name).stat(bucket.object_name("code", name)) is None:
            return None
        return Bundle(location=bucket.uri("code", name), argv=tuple(argv), sha256=sha256)

    def job_folder(self, job_id: str) -> str:
        bucket = self._settings.bucket
        return "" if bucket is None else bucket.uri("jobs", job_id)

    def list_files(self, place: str) -> list[JobFile]:
        bucket, prefix = self._below(place)
        found = [(one.name[len(prefix) :], one) for one in Objects(self._access, bucket).list(prefix)]
        return [
            JobFile(name=name, size=one.size, generation=one.generation)
            for name, one in found
            if name and not name.endswith("/")  # a folder that the console made
        ]

    def read_file(self, place: str, file: JobFile, first: int, count: int) -> bytes:
        bucket, prefix = self._below(place)
        objects = Objects(self._access, bucket)
        return objects.read_range(prefix + file.name, first, count, generation=file.generation)

    @staticmethod
    def _below(place: str) -> tuple[str, str]:
        where = BucketPrefix.parse(place)
        return where.name, where.prefix

    def logs(self, record: JobRecord, cursor: str = "") -> LogPage:
        """As of `Backend`, after those of the attempts before it; of many jobs by turns."""
        logs = self._run_logs(record)
        if not (logs.is_over or self._turns.take(record.job_id)):
            return LogPage(lines=(), cursor=cursor)
        return logs.read(cursor)

    def cursor_near_end(self, record: JobRecord, lines: int) -> str:
        """As of `Backend`; exact."""
        return self._run_logs(record).near_end(lines)

    def _run_logs(self, record: JobRecord) -> NodeLogs:
        attempt = record.current.id
        ids = [one.id for one in record.history if one.has_run and one.option.backend == self.name]
        return NodeLogs(
            store=BucketLogs(self._objects, self._reports.folder(record.job_id)),
            attempts=[*ids, attempt],
            nodes=record.training_spec.num_nodes,
            is_over=record.has_ended or self._looks.saw_end_of(attempt),
            now=self._access.now,
        )

    @property
    def _reports(self) -> RunReports:
        return RunReports(stored=self._objects, bucket=self._settings.code_bucket)

    def ask_for_stacks(self, record: JobRecord, nonce: str) -> None:
        self._objects.write(self._stacks_prefix(record), nonce.encode(), if_generation=None)

    def stacks(self, record: JobRecord, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        found = self._objects.list(f"{self._stacks_prefix(record)}-{nonce}-")
        named = {node: one.name for one in found if (node := node_of(one.name, nonce)) is not None}
        read = {node: self._objects.read(name, most_bytes=MOST_BYTES) for node, name in named.items()}
        return {node: read_standings(one.content, node) for node, one in read.items() if one is not None}

    def _stacks_prefix(self, record: JobRecord) -> str:
        """The question's name; answers are named after it."""
        folder = ("jobs", record.job_id, record.current.id)
        return self._settings.code_bucket.object_name(*folder, contract.STACKS_ASK)

    @property
    def _objects(self) -> Objects:
        return Objects(self._access, self._settings.code_bucket.name)


def check_image(image: str, shape: Shape, service: Service) -> None:
    """Raise SpecError where an image surely cannot run a machine's GPU."""
    certain = [fault for fault in catalog.image_faults(image, shape, service=service) if fault.is_certain]
    if certain:
        raise invalid("image", image, certain[0].why, certain[0].fix, what=certain[0].what)


def shape_of(one: Candidate, service: Service) -> Shape:
    """The catalog's row for a candidate: the one fact that machine and accelerator are written from."""
    return _shape_of(one.gpu, one.gpu_count, one.machine_type, service)


@lru_cache(maxsize=1024)
def _shape_of(gpu: str | None, count: Any, machine_type: str, service: Service) -> Shape:
    return catalog.shapes(gpu, count, machine_type=machine_type, service=service)[0]


def in_reservation(one: Candidate, shape: Shape, zone: str, found: Mapping[str, Found]) -> tuple[str, str]:
    """Why the reservation named does not carry the job in a zone, and what is not known of it."""
    if one.reservation in (None, ANY_RESERVATION):
        return "", ""
    answer = found[_reserved(one.reservation)]
    if answer.value is None:
        why = in_short(answer.error) if answer.error else "the list is not whole"
        return "", f"{_reserved(one.reservation)}: {why}"
    attached = (shape.gpu.accelerator_type, shape.api_gpu_count) if shape.is_attached else None
    return check_fit(answer.value, one.reservation, zone, one.machine_type, attached, one.num_nodes), ""


def _reserved(name: str) -> str:
    return f"reservation {name}"
