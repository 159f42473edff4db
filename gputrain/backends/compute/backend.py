"""`ComputeEngine`: GPU VMs that start all together, report why they ended, and remove themselves."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gputrain.backends.base import Bundle, Request
from gputrain.backends.compute import images, networking, offers, preflight
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.flex_queue import FlexQueue
from gputrain.backends.compute.request import AttemptVms, call, draft
from gputrain.backends.compute.settings import NAME, ComputeSettings
from gputrain.backends.compute.status import Looks
from gputrain.backends.compute.vms import Vms
from gputrain.backends.google import GoogleBackend
from gputrain.catalog import GpuNetworking, Service
from gputrain.google import Api
from gputrain.google.registry import by_digest, resolve_digest
from gputrain.google.storage import Progress
from gputrain.jobstore import Attempt, JobRecord
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec


class ComputeEngine(GoogleBackend[ComputeSettings]):
    """Runs jobs on VMs of Compute Engine.

    The VMs have no external address, so they reach Google's APIs through Private Google Access, and the
    internet only through Cloud NAT. No firewall rule, network or account is ever made.

    Args:
        project: the project's id. A plan needs none, and then knows no quotas.
        regions: where to run, in order of preference; the bucket lies in the first. ``any`` among them stands
            for all others, the cheapest first.
        bucket: ``gs://bucket`` or ``gs://bucket/prefix`` of this project, for code, status and logs. A plan
            needs none.
        image_repository: where images that are built for jobs are kept, ``LOCATION-docker.pkg.dev/PROJECT/
            NAME``; the repository ``gputrain`` of the first region by default.
        service_account: the account that the VMs run as; ``gputrain@PROJECT.iam.gserviceaccount.com``
            by default.
        network: VPC network of the first interface: its name, or ``projects/HOST/global/networks/NAME`` of a
            Shared VPC, in whose host project all subnetworks are looked for then.
        subnetwork: its subnetwork in every region, where the network is not in auto mode.
        gpu_subnetworks: subnetworks of the further interfaces, in order, for several machines of a family
            whose GPUs talk through networks of their own (A3, A4).
        gpu_networking: how the GPUs of several machines talk: ``auto``, or one of
            `gputrain.catalog.GpuNetworking`.
        nccl_plugin, nccl_daemon: where NCCL's plugin and its daemon come from, instead of the catalog's.
        boot_image, image_family: instead of the image family that suits the GPU.
        disk_gib, disk_type: of the boot disk.
        kms_key: full name of a key that encrypts the boot disk.
        placement_policy: a compact placement policy in the region, for jobs of several nodes.
        python: path of the Python to run on the image (or in the container); found by default.
        driver_wait_s: how long the NVIDIA driver may take to come up.
        external_ip: give the VMs external addresses.
        check_network: before VMs are made, see that they will reach the bucket, and the internet where the
            job needs it.
        secure_boot: only for images whose NVIDIA driver is signed.
        os_login: manage SSH access by IAM.
        network_tags: put on the VMs, for firewall rules that exist.
        capacity_advice: ask Google how likely Spot and Flex-start VMs are available, when planning.
        poll_s: seconds between two looks at a job.
        endpoints: where Google's APIs are; `gputrain.emulator`'s, to try things. Without them, an emulator's
            where ``$GPUTRAIN_ENDPOINT`` names one, and then without credentials.
        credentials: google.auth credentials; this environment's default ones unless given.
        progress: called with the bytes of code sent so far and the total.

    Raises:
        SpecError: with all faults of the arguments.

    >>> ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket").supply.backend
    'compute'
    """

    name = NAME
    needed_beyond_plans = ("project", "bucket")
    _service, _settings_class = Service.COMPUTE, ComputeSettings
    _offers, _preflight = offers, preflight

    def __init__(
        self, project: str | None = None, *, regions: Sequence[str], bucket: str | None = None,
        image_repository: str | None = None, service_account: str | None = None,
        network: str = "default", subnetwork: str | None = None, gpu_subnetworks: Sequence[str] = (),
        gpu_networking: str | GpuNetworking = GpuNetworking.AUTO,
        nccl_plugin: str | None = None, nccl_daemon: str | None = None,
        boot_image: str | None = None, image_family: str | None = None,
        disk_gib: int = 200, disk_type: str | None = None, kms_key: str | None = None,
        placement_policy: str | None = None,
        python: str | None = None, driver_wait_s: int = 600, external_ip: bool = False,
        check_network: bool = True, secure_boot: bool = False, os_login: bool = True,
        network_tags: Sequence[str] = (), capacity_advice: bool = True, poll_s: float = 5.0,
        endpoints: Any = None, credentials: Any = None, progress: Progress | None = None,
        sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        super().__init__(locals())
        settings, calls = self._settings, Calls(access=self._access)
        self._calls, self.poll_s = calls, settings.poll_s
        if not (settings.project and settings.bucket):  # it only plans
            return
        queue, reports = FlexQueue(calls=calls), self._reports
        self._jobs = Vms(calls=calls, queue=queue, reports=reports, home=settings.home_label)
        self._looks = Looks(calls, queue, reports, settings.service_account, settings.home_label)

    @property
    def _quota_options(self) -> Mapping[str, Any]:
        return {"disk_gib": self._settings.disk_gib, "disk_type": self._settings.disk_type}

    def build_request(
        self, record: JobRecord, spec: TrainingSpec, attempt: Attempt, candidate: Candidate, bundle: Bundle
    ) -> Request:
        """As of `Backend`. NoWayOutError: the VMs would reach nothing."""
        access = self._access
        addresses = {api.value: access.url(api) for api in (Api.STORAGE, Api.COMPUTE, Api.SECRETMANAGER)}
        body = draft(self._settings, addresses, record.job_id, spec, attempt, candidate, bundle)
        networking.check_ways_out(access, self._settings, body)
        # Each image is asked for anew: its tag or family may have moved since the last submit.
        (disk,), job = body["properties"]["disks"], body["job"]
        source = images.newest(access, disk["initializeParams"]["sourceImage"])
        disk["initializeParams"]["sourceImage"] = source
        if job["image"]:
            job["image"] = resolve_digest(access, job["image"])
        image, body = by_digest(job["image"] or ""), call(body)
        return Request(job_id=record.job_id, attempt=attempt, candidate=candidate, body=body, image=image)

    def ssh_command(self, record: JobRecord, node_rank: int = 0) -> str:
        """As of `Backend`, through Identity-Aware Proxy."""
        vms = AttemptVms.of(record.job_id, record.current)
        words = ["gcloud", "compute", "ssh", vms.names[node_rank], "--project", self._settings.project]
        return shlex.join([*words, "--zone", vms.zone, "--tunnel-through-iap"])
