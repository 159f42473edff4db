"""`VertexAI`: custom jobs, placed in one of some regions, each made exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gputrain.backends.base import Bundle, LogPage, Request
from gputrain.backends.google import GoogleBackend
from gputrain.backends.vertex import logs, offers, preflight
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.request import custom_job, to_gcloud
from gputrain.backends.vertex.settings import NfsMount, ReductionServer, VertexSettings
from gputrain.backends.vertex.status import Looks
from gputrain.catalog import Service
from gputrain.google import Api
from gputrain.google.cache import Pace
from gputrain.google.registry import by_digest, resolve_digest
from gputrain.google.storage import Progress
from gputrain.jobstore import Attempt, JobRecord
from gputrain.planning import Candidate, GcloudJob
from gputrain.spec import TrainingSpec
from gputrain.spec.gcloud import read_config


class VertexAI(GoogleBackend[VertexSettings]):
    """Runs jobs as Vertex AI custom jobs.

    Args:
        project: the project's id. A plan needs none, and then knows no quotas.
        region: where to run; ``any``: wherever it is cheapest.
        regions: where to run, in order of preference; the bucket lies in the first. ``any`` among them stands
            for all others.
        bucket: ``gs://bucket`` or ``gs://bucket/prefix`` of this project, for code, locks and results.
            Needed to submit, not to plan.
        image_repository: where images that are built for jobs are kept, ``LOCATION-docker.pkg.dev/PROJECT/
            NAME``; the repository ``gputrain`` of the first region by default.
        service_account: the account that jobs run as; without one, Vertex AI's own agent.
        network: full name of a peered VPC network.
        network_attachment: full name of a Private Service Connect attachment, instead of a network.
        tensorboard: full name of a TensorBoard instance; needs a service account.
        persistent_resource: id of machines that are there already.
        kms_key: full name of a key that encrypts what the job keeps.
        management_fee: what Vertex AI takes on top of Compute Engine's on-demand price, as a share of it:
            0.15, read off a bill of 2025-08, unless your price list or contract has another.
        disk_gib: size of each machine's boot disk.
        disk_type: its type; pd-ssd, or hyperdisk-balanced where the machine takes nothing else.
        reduction_server: extra machines that sum gradients, for jobs of several nodes.
        enable_web_access: let people open a terminal in running containers, from the job's page.
        nfs_mounts: shares that containers see; they need a network.
        experiment, experiment_run: full names of the contexts that the job is filed under.
        endpoints: where Google's APIs are; `gputrain.emulator`'s, to try things. Without them, an emulator's
            where ``$GPUTRAIN_ENDPOINT`` names one, and then without credentials.
        credentials: google.auth credentials; this environment's default ones unless given.
        progress: called with the bytes of code sent so far and the total.

    Raises:
        SpecError: with all faults of the arguments.

    >>> VertexAI(project="my-project", region="us-central1").supply.backend
    'vertex'
    """

    name = offers.NAME
    poll_s = 1.5  # a single job's end is seen within two seconds; many jobs share their looks
    restarts_itself = True
    _service, _settings_class = Service.VERTEX, VertexSettings
    _offers, _preflight = offers, preflight

    def __init__(
        self, project: str | None = None, region: str | None = None, *,
        regions: Sequence[str] | None = None, bucket: str | None = None,
        image_repository: str | None = None, service_account: str | None = None,
        network: str | None = None, network_attachment: str | None = None,
        tensorboard: str | None = None, persistent_resource: str | None = None, kms_key: str | None = None,
        management_fee: float | None = None, disk_gib: int = 100, disk_type: str | None = None,
        reduction_server: ReductionServer | None = None,
        enable_web_access: bool = False, nfs_mounts: Sequence[NfsMount] = (),
        experiment: str | None = None, experiment_run: str | None = None,
        endpoints: Any = None, credentials: Any = None, progress: Progress | None = None,
        sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        super().__init__(locals())
        self._jobs = JobService(access=self._access, settings=self._settings)
        self._looks = Looks(self._jobs)
        self._reads = Pace(each_s=logs.CALL_S, now=self._access.now)

    @classmethod
    def from_gcloud(cls, config: str | Mapping[str, Any], **arguments: Any) -> VertexAI:
        """The backend that a gcloud ``config.yaml`` speaks of; the job in it is `TrainingSpec.from_gcloud`'s.

        Args:
            config: the file's text, or what it holds.
            **arguments: of `VertexAI`, such as project and region, which such a file does not name.

        Raises:
            SpecError: with everything in the file that cannot be said, or all faults of the arguments.
        """
        return cls(**{**read_config(config)[1], **arguments})

    @property
    def _quota_options(self) -> Mapping[str, Any]:
        owned = "machines of a persistent resource were counted when it was made"
        return {"counted_before": owned if self._settings.persistent_resource else ""}

    def to_gcloud(self, request: Request) -> GcloudJob:
        return to_gcloud(request.body)

    def build_request(
        self, record: JobRecord, spec: TrainingSpec, attempt: Attempt, candidate: Candidate, bundle: Bundle
    ) -> Request:
        addresses = {api.value: self._access.url(api) for api in (Api.STORAGE, Api.SECRETMANAGER)}
        body = custom_job(
            self._settings, spec, candidate, record.job_id, attempt, bundle, addresses,
            lambda image: resolve_digest(self._access, image),
        )  # fmt: skip
        image = by_digest(body["customJob"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"])
        return Request(
            job_id=record.job_id, attempt=attempt, candidate=candidate, body=body, image=image,
            is_fenced=not spec.runs_image,
        )  # fmt: skip

    def is_fenced(self, spec: TrainingSpec) -> bool:
        return not spec.runs_image

    def logs(self, record: JobRecord, cursor: str = "") -> LogPage:
        """As of `Backend`. From Cloud Logging for an image as it is, or where a job ended before it wrote."""
        if not cursor.startswith("{") and not record.training_spec.runs_image:
            page = super().logs(record, cursor)
            is_empty = not page.lines and page.cursor in ("", self._run_logs(record).begin)
            if not is_empty or not self._run_logs(record).is_over:
                return page
            cursor = ""
        resource = self._jobs.resource_of(record.current)
        is_continued = logs.is_continued(cursor)
        may_read = record.has_ended or self._reads.take(record.job_id, is_continued=is_continued)
        if not resource or not may_read:
            return LogPage(lines=(), cursor=cursor)
        return logs.read(self._access, resource, record.current.at, cursor)

    def cursor_near_end(self, record: JobRecord, lines: int) -> str:
        if not record.training_spec.runs_image:
            return super().cursor_near_end(record, lines)
        resource = self._jobs.resource_of(record.current)
        return logs.near_end(self._access, resource, lines) if resource else ""
