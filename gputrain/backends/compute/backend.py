"""`ComputeEngine`: gangs of GPU VMs that start whole, say why they ended, and remove themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import attrs

from gputrain.arguments import refusing
from gputrain.backends.base import JobRef, LogPage, Orphan, Request, Start
from gputrain.backends.compute import cleanup, images, networks, offers, preflight, render
from gputrain.backends.compute.cache import CALL_S, FEW, Glances
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.cleanup import Remains
from gputrain.backends.compute.gang import Gangs
from gputrain.backends.compute.logs import Logs
from gputrain.backends.compute.look import Looks
from gputrain.backends.compute.names import NAME, JobObjects, JobPlace, VmNames
from gputrain.backends.compute.queue import Queue
from gputrain.backends.compute.recorder import VmRecorder
from gputrain.backends.compute.settings import ROWS, ComputeSettings, read_settings
from gputrain.backends.google import GoogleBackend
from gputrain.catalog import GpuNetworking, Service, region_of
from gputrain.gcp import Access, Api, Objects
from gputrain.gcp.endpoints import asked_for
from gputrain.gcp.pace import Pace
from gputrain.gcp.registry import by_digest, pinned
from gputrain.gcp.shared import Found
from gputrain.gcp.uploads import Progress
from gputrain.lifecycle import Observation, State
from gputrain.planning import Candidate, Fact, Supply
from gputrain.preflight import Checks
from gputrain.quota.book import Book
from gputrain.records import WITHDRAWN, BucketBoard, DamagedRecordError, Record
from gputrain.spec import TrainingSpec


class ComputeEngine(GoogleBackend[ComputeSettings]):
    """Runs jobs on VMs of Compute Engine.

    The VMs have no external address, so they reach Google's APIs through Private Google Access, and the
    internet only through Cloud NAT. No firewall rule, network or account is ever made.

    Args:
        project: the project's id.
        regions: where to run, in order of preference; the bucket lies in the first.
        bucket: ``gs://bucket`` or ``gs://bucket/prefix`` of this project, for code, status and logs.
        image_repository: where images that are built for jobs are kept, ``LOCATION-docker.pkg.dev/PROJECT/
            NAME``; the repository ``gputrain`` of the first region unless said.
        service_account: the account that the VMs run as; ``gputrain@PROJECT.iam.gserviceaccount.com``
            unless said.
        network: VPC network of the first interface.
        subnetwork: its subnetwork in every region, where the network is not in auto mode.
        gpu_subnetworks: subnetworks of the further interfaces, in order, for several machines of a family
            whose GPUs talk through networks of their own (A3, A4).
        gpu_networking: how the GPUs of several machines talk: ``auto``, or one of
            `gputrain.catalog.GpuNetworking`.
        nccl_plugin, nccl_daemon: where NCCL's plugin and its daemon come from, instead of the catalog's.
        boot_image, image_family: instead of the image family that suits the GPU.
        disk_gib, disk_type: of the boot disk.
        placement_policy: a compact placement policy in the region, for jobs of several nodes.
        python: path of the Python to run on the image (or in the container); found out unless said.
        driver_wait_s: how long the NVIDIA driver may take to come up.
        external_ip: give the VMs external addresses.
        check_network: before VMs are made, see that they will reach the bucket, and the internet where the
            job needs it.
        secure_boot: only for images whose NVIDIA driver is signed.
        os_login: manage SSH access by IAM.
        network_tags: put on the VMs, for firewall rules that exist.
        capacity_advice: ask Google how likely Spot and Flex-start VMs are to be had, when planning.
        poll_s: seconds between two looks at a job.
        endpoints: where Google's APIs are; `gputrain.emulator`'s, for a trial. Without them, an emulator's
            where ``$GPUTRAIN_ENDPOINT`` names one, and then without credentials.
        credentials: google.auth credentials; this environment's default ones unless given.
        progress: called with the bytes of code sent so far and the total.

    Raises:
        SpecError: with all faults of the arguments.

    >>> ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket").supply.backend
    'compute'
    """

    _service = Service.COMPUTE

    @refusing(ROWS)
    def __init__(
        self, project: str, *, regions: Sequence[str], bucket: str,
        image_repository: str | None = None, service_account: str | None = None,
        network: str = "default", subnetwork: str | None = None, gpu_subnetworks: Sequence[str] = (),
        gpu_networking: str | GpuNetworking = GpuNetworking.AUTO,
        nccl_plugin: str | None = None, nccl_daemon: str | None = None,
        boot_image: str | None = None, image_family: str | None = None,
        disk_gib: int = 200, disk_type: str | None = None, placement_policy: str | None = None,
        python: str | None = None, driver_wait_s: int = 600, external_ip: bool = False,
        check_network: bool = True, secure_boot: bool = False, os_login: bool = True,
        network_tags: Sequence[str] = (), capacity_advice: bool = True, poll_s: float = 5.0,
        endpoints: Any = None, credentials: Any = None, progress: Progress | None = None,
        sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        settings = read_settings(
            project=project, regions=regions, bucket=bucket, image_repository=image_repository,
            service_account=service_account, network=network, subnetwork=subnetwork,
            gpu_subnetworks=gpu_subnetworks, gpu_networking=gpu_networking, nccl_plugin=nccl_plugin,
            nccl_daemon=nccl_daemon, boot_image=boot_image, image_family=image_family, disk_gib=disk_gib,
            disk_type=disk_type, python=python, placement_policy=placement_policy,
            driver_wait_s=driver_wait_s, external_ip=external_ip, check_network=check_network,
            secure_boot=secure_boot, os_login=os_login, network_tags=network_tags,
            capacity_advice=capacity_advice, poll_s=poll_s, endpoints=endpoints, credentials=credentials,
            progress=progress, sleep=sleep, now=now,
        )  # fmt: skip
        access = Access(project=project, **asked_for(endpoints, credentials), sleep=sleep, now=now)
        super().__init__(settings, access, progress)
        home = settings.bucket
        self._calls = Calls(access=access)
        self._stored = Objects(access, home.name)
        self._board = BucketBoard(access, home)
        self._queue = Queue(calls=self._calls)
        self._gangs = Gangs(calls=self._calls, bucket=home, board=self._board, queue=self._queue)
        self._recorder = VmRecorder(settings=settings, board=self._board, gangs=self._gangs)
        self._looks = Looks(self._calls, home, self._stored, settings.service_account, self._queue)
        self._glances = Glances(self._looks, now)
        self._turns = Pace(each_s=CALL_S, few=FEW, now=now)
        self._remains = Remains(self._gangs, now)
        self._logs = Logs(calls=self._calls, bucket=home, stored=self._stored, now=now)

    @classmethod
    def for_ref(cls, ref: JobRef, **arguments: Any) -> ComputeEngine:
        """The backend that a job's name speaks of, with the default credentials unless some are given."""
        place = JobPlace.parse(ref.place)
        bucket = place.bucket.uri("").rstrip("/")
        return cls(ref.project, regions=[region_of(place.zone)], bucket=bucket, **arguments)

    @property
    def name(self) -> str:
        """``compute``."""
        return NAME

    @property
    def poll_s(self) -> float:
        """Seconds between two looks; all jobs of a zone share one list."""
        return self._settings.poll_s

    @property
    def supply(self) -> Supply:
        """The shapes with GPUs in the zones of these regions, and what it cannot honour."""
        return self._supply

    @cached_property
    def _supply(self) -> Supply:
        return offers.supply(self._settings)

    def _questions(self, wanted: Sequence[Candidate]) -> Mapping[str, Callable[[], Any]]:
        return offers.questions(self._access, wanted, has_advice=self._settings.capacity_advice)

    def _fact(self, one: Candidate, book: Book, found: Mapping[str, Found]) -> Fact:
        return offers.fact(one, book, found)

    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate], job_id: str) -> Checks:
        """What jobs need, or this one: looked at all at once; nothing is made."""
        return preflight.preflight(self._calls, self._settings, spec, wanted, job_id)

    def render(self, start: Start) -> Request:
        """A draft of the VMs that would be made. Pure."""
        addresses = self._addresses(Api.STORAGE, Api.COMPUTE, Api.SECRETMANAGER)
        body = render.body(start, self._settings, addresses)
        ref = self._recorder.ref(start.candidate.place, start.job_id)
        return Request(ref=ref, candidate=start.candidate, body=body, names=tuple(body["job"]["names"]))

    def complete(self, request: Request) -> Request:
        """The request as it is sent: with what the images are today.

        Raises:
            NoWayOutError: the VMs would reach nothing.
            RequestError, AccessError: an image is not there.
        """
        draft = request.body
        networks.check_ways_out(self._access, self._settings, draft)
        # Each image is asked for anew: its tag or family may have moved since the last submit.
        (disk,), container = draft["properties"]["disks"], draft["job"]["image"]
        source = images.newest(self._calls, disk["initializeParams"]["sourceImage"])
        disks = [{**disk, "initializeParams": {**disk["initializeParams"], "sourceImage": source}}]
        job = {**draft["job"], "image": container and pinned(self._access, container)}
        whole = {**draft, "job": job, "properties": {**draft["properties"], "disks": disks}}
        return attrs.evolve(request, body=render.call(whole), image=by_digest(job["image"] or ""))

    def create(self, request: Request) -> JobRef:
        """Make the gang, all of it or none.

        Raises:
            CapacityError: the zone has no room, and nothing is left of the try.
            QuotaExceededError, AccessError, RequestError: as Compute Engine answers.
            TransientError: no answer came; ask again with the same request.
        """
        with self._reader.corrected():
            self._gangs.make(request)
        self._glances.forget(request.ref.name)
        return request.ref

    def recorder(self) -> VmRecorder:
        """The records of this bucket."""
        return self._recorder

    def observe(self, ref: JobRef) -> Observation:
        """One look at the job; all jobs of a zone share a list, and one that runs costs no call of its own.

        Raises:
            JobLostError: there is no such job.
        """
        return self._look(ref)[1]

    def _look(self, ref: JobRef) -> tuple[Record, Observation]:
        known, glimpsed = self._recorder.known, self._recorder.glimpsed
        return self._glances.look(ref.name, lambda: known(ref), lambda: glimpsed(ref))

    def tidy(self, ref: JobRef, seen: Observation) -> None:
        """End what is left of a gang that cannot go on, as a look saw it."""
        self._remains.leave_queue(self._board, ref.name, seen)
        record = partial(self._recorder.known, ref)
        if unneeded := self._remains.of(ref.name, seen, record):
            self._remains.end(VmNames.of(record()), seen, unneeded)

    def logs(self, ref: JobRef, cursor: str = "") -> LogPage:
        """Lines that all nodes wrote since ``cursor``; of many jobs by turns. Raises as `observe`."""
        gang, is_over = self._writers(ref)
        if not is_over and not self._turns.take(ref.name):
            return LogPage(lines=(), cursor=cursor)
        return self._logs.read(gang, cursor, is_over=is_over)

    def cursor_near_end(self, ref: JobRef, lines: int) -> str:
        """As of `FindsTheEnd`, by the lines' usual length. Raises as `observe`."""
        gang, is_over = self._writers(ref)
        return self._logs.near_end(gang, lines, is_over=is_over)

    def _writers(self, ref: JobRef) -> tuple[VmNames, bool]:
        """The VMs of the present attempt, and whether they write no more."""
        record, seen = self._look(ref)
        is_over = seen.state is State.INTERRUPTED or (seen.state is not None and seen.state.is_terminal)
        return VmNames.of(record), is_over

    def cancel(self, ref: JobRef) -> None:
        """End the job: its ranks may save, then its VMs go; nobody starts it again. Raises as `observe`.

        Raises:
            AccessError, RequestError, TransientError: VMs could not be deleted, or its end not written down.
            DamagedRecordError: only what lists show of it could be ended, since nobody knows what it has.
        """
        try:
            record = self._recorder.known(ref)
        except DamagedRecordError as error:
            self._recorder.end(ref.name)  # its guests are told, and may save
            self._remains.end_unread(error, lambda: self._left_of(ref.name), self._access.sleep)
            raise
        seen, is_last = self._looks.observe(record), record.over != WITHDRAWN and not record.unread
        is_over = seen.state is not None and seen.state.is_terminal and is_last
        if is_over and "queue" not in seen.raw and self._recorder.has_come(record):
            return  # else it never ran, or others start it again
        over, refused = self._recorder.end(ref.name)
        self._remains.let_save(over or record, self._looks.observe, self._access.sleep)
        self._glances.forget(ref.name)
        self._gangs.end(VmNames.to_end(over or record))
        if refused is not None:
            raise refused

    def orphans(self) -> tuple[Orphan, ...]:
        """VMs that bear our label and have no living job, with what each costs an hour.

        Raises:
            TransientError: they could not all be listed.
        """
        return self._left_of()

    def _left_of(self, job_id: str = "") -> tuple[Orphan, ...]:
        home = self._settings.home_label
        return cleanup.orphans(self._calls, self._queue, self._board, self._looks, home, job_id)

    def clean_up(self, only: Sequence[Orphan] | None = None) -> tuple[Orphan, ...]:
        """Delete the `orphans`, or those of them that were seen before; those that were asked to go.

        Raises:
            GputrainError: the first refusal; all others were asked to go first, as each of them may bill.
        """
        seen = None if only is None else {(one.place, one.name) for one in only}
        found = self.orphans()
        return self._remains.remove(one for one in found if seen is None or (one.place, one.name) in seen)

    def ssh_command(self, ref: JobRef, node_rank: int = 0) -> str:
        """The command with which a person gets to a node, through Identity-Aware Proxy."""
        return VmNames.of(self._recorder.known(ref)).ssh_command(ref.project, node_rank)

    def _asks(self, ref: JobRef) -> tuple[Objects, str]:
        job = JobObjects(bucket=self._settings.bucket, job_id=ref.name)
        return self._stored, job.attempt(VmNames.of(self._recorder.known(ref)).attempt)

    def find(self, *, name: str = "") -> tuple[JobRef, ...]:
        """Jobs of this bucket, newest first; those whose name starts with ``name``. Raises as `entries`."""
        return self._recorder.find(name)
