"""What a project chooses once for all its Vertex AI jobs, checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from gputrain import fields
from gputrain.backends.google import REGION, GoogleSettings, account, kms_key, of_project, setting, switch
from gputrain.errors import SpecError
from gputrain.fields import Errors, Field, matching
from gputrain.google.storage import BucketPrefix

_IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
_CONTEXTS = "locations/{word}/metadataStores/{word}/contexts/{word}"
_WORD = r"[A-Za-z0-9][\w./:@-]*"
# fmt: off
_OF_SERVER = {
    "replicas": Field(fields.whole(1, 10**6), "a whole number from 1 on", "replicas=2", is_needed=True),
    "machine_type": Field(matching(_WORD), "a machine type", "machine_type='n1-highcpu-16'", is_needed=True),
    "image": Field(matching(_WORD), "a container image", f"image={_IMAGE!r}", is_needed=True),
}
_OF_MOUNT = {
    "server": Field(matching(r"[A-Za-z0-9][A-Za-z0-9.:-]*"), "an address of a server", "server='10.0.0.2'",
                    is_needed=True),
    "path": Field(matching(r"/[^\0\n]*"), "a path on the server", "path='/share'", is_needed=True),
    "mount_point": Field(matching(r"[A-Za-z0-9][\w.-]*"), "the name of a folder", "mount_point='data'",
                         is_needed=True),
}
# fmt: on


@attrs.frozen(kw_only=True, init=False)
class ReductionServer:
    """Extra CPU machines that sum gradients for the trainers (Vertex AI's Reduction Server).

    For V100 and A100 machines with NCCL: it replaces the network plug-in that A3 and A4 machines bring.
    ``replicas`` times the machine's egress should reach that of the trainers together.

    Source: Vertex AI distributed training documentation, read 2026-11-20.
    """

    replicas: int
    machine_type: str
    image: str

    def __init__(self, *, replicas: int, machine_type: str = "n1-highcpu-16", image: str = _IMAGE) -> None:
        given = {"replicas": replicas, "machine_type": machine_type, "image": image}
        self.__attrs_init__(**fields.read_whole("ReductionServer(...)", _OF_SERVER, given))


@attrs.frozen(kw_only=True, init=False)
class NfsMount:
    """A share that every container of a job sees at ``/mnt/nfs/MOUNT_POINT``.

    Its server has to be reached from the job: in the peered ``network``, or through ``network_attachment``.

    Source: google-cloud-aiplatform 2.7.0, ``NfsMount``, read 2026-11-22.
    """

    server: str
    path: str
    mount_point: str

    def __init__(self, *, server: str, path: str, mount_point: str) -> None:
        given = {"server": server, "path": path, "mount_point": mount_point}
        self.__attrs_init__(**fields.read_whole("NfsMount(...)", _OF_MOUNT, given))


def _one(kind: type[Any]) -> Callable[[Any], Any]:
    """Reads one of a kind, as it is or as a file says it."""

    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise ValueError  # the row says what it may be
        try:
            return kind(**value)
        except SpecError as error:  # a fault of the argument that it stands in
            raise ValueError(str(error)) from None

    return read


def _share(value: Any) -> float:
    is_none = value == 0 and not isinstance(value, bool)  # a contract may say so
    return 0.0 if is_none else fields.number(0, 10)(value)


@attrs.frozen(kw_only=True)
class VertexSettings(GoogleSettings):
    """The constructor's arguments, as values."""

    # fmt: off
    regions: tuple[str, ...] = setting(
        fields.many(REGION, or_one=True), "regions, or any",
        "region='us-central1'; a zone has a letter more than its region", is_kept=False)
    bucket: BucketPrefix | None = setting(
        BucketPrefix.parse, "gs://bucket or gs://bucket/prefix", "bucket='gs://my-bucket'", is_kept=False)
    service_account: str | None = account("service_account='train@my-project.iam.gserviceaccount.com'")
    network: str | None = of_project(
        "global/networks/{word}", "the network's full name",
        "network='projects/PROJECT_NUMBER/global/networks/NAME'")
    network_attachment: str | None = of_project(
        "regions/{word}/networkAttachments/{word}", "the attachment's full name",
        "network_attachment='projects/P/regions/R/networkAttachments/NAME'")
    tensorboard: str | None = of_project(
        "locations/{word}/tensorboards/{word}", "the instance's full name",
        "tensorboard='projects/P/locations/R/tensorboards/ID'")
    persistent_resource: str | None = setting(
        matching(r"[a-z][a-z0-9-]{0,62}"), "the resource's id", "persistent_resource='my-cluster'")
    kms_key: str | None = kms_key()
    management_fee: float | None = setting(
        _share, "a share of the machine's price, such as 0.2 for 20 %", "management_fee=0.2", is_kept=False)
    disk_gib: int = setting(fields.whole(100, 64_000), "100 to 64000", "disk_gib=100", is_needed=True)
    disk_type: str | None = setting(
        matching(r"pd-ssd|pd-standard|hyperdisk-balanced"), "pd-ssd, pd-standard or hyperdisk-balanced",
        "leave it out")
    reduction_server: ReductionServer | None = setting(
        _one(ReductionServer), "a ReductionServer, of one machine or more",
        "reduction_server=ReductionServer(replicas=2)")
    enable_web_access: bool = switch("enable_web_access", False)
    nfs_mounts: tuple[NfsMount, ...] = setting(
        fields.many(_one(NfsMount)), "a list of NfsMount",
        "nfs_mounts=[NfsMount(server='10.0.0.2', path='/share', mount_point='data')]", is_needed=True)
    experiment: str | None = of_project(
        _CONTEXTS, "the experiment's full name",
        "experiment='projects/P/locations/R/metadataStores/default/contexts/NAME'")
    experiment_run: str | None = of_project(
        _CONTEXTS, "the run's full name",
        "experiment_run='projects/P/locations/R/metadataStores/default/contexts/NAME-RUN'")
    # fmt: on

    @classmethod
    def rows(cls) -> dict[str, Field]:
        """As of `GoogleSettings`, with the constructor's ``region``."""
        rows = super().rows()
        return {**rows, "region": rows["regions"]}

    @classmethod
    def complete(cls, found: dict[str, Any], faults: Errors) -> None:
        found["regions"] = tuple(dict.fromkeys([*(found.pop("region") or ()), *(found["regions"] or ())]))
        regions = cls.rows()["regions"]
        if faults.is_clean("region", "regions") and not found["regions"]:
            faults.add("region", None, regions.expected, regions.fix)
        has = {name for name, value in found.items() if value} | {one.field for one in faults.faults}
        if {"network", "network_attachment"} <= has:
            faults.add("network", found["network"], "a network or an attachment", "drop one")
        networks = ("network", "network_attachment")
        for name, needed in {
            "tensorboard": ("service_account",), "nfs_mounts": networks, "experiment_run": ("experiment",)
        }.items():  # fmt: skip
            if found[name] and not has & set(needed):
                fix = " or ".join(f"{one}=..." for one in needed)
                faults.add(needed[0], None, f"one for {name}", fix)
