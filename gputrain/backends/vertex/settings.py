"""What a project chooses once for all its Vertex AI jobs, checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from gputrain import fields
from gputrain.backends.google import OBJECTS, REGION, GoogleSettings, setting, switch
from gputrain.errors import SpecError
from gputrain.fields import Errors, Field, matching, named
from gputrain.google.storage import BucketPrefix

_IMAGE = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
_WORD = r"[A-Za-z0-9][\w./:@-]*"
_OF_SERVER = {
    "replicas": Field(fields.whole(1, 10**6), "a whole number from 1 on", "replicas=2", is_needed=True),
    "machine_type": Field(matching(_WORD), "a machine type", "machine_type='n1-highcpu-16'", is_needed=True),
    "image": Field(matching(_WORD), "a container image", f"image={_IMAGE!r}", is_needed=True),
}
_OF_MOUNT = {
    "server": Field(
        matching(r"[A-Za-z0-9][A-Za-z0-9.:-]*"), "an address of a server", "server='10.0.0.2'", is_needed=True
    ),
    "path": Field(matching(r"/[^\0\n]*"), "a path on the server", "path='/share'", is_needed=True),
    "mount_point": Field(
        matching(r"[A-Za-z0-9][\w.-]*"), "the name of a folder", "mount_point='data'", is_needed=True
    ),
}


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

    regions: tuple[str, ...] = setting(
        fields.many(REGION, or_one=True),
        "one or more regions",
        "region='us-central1'; a zone has a letter more than its region",
        is_kept=False,
    )
    bucket: BucketPrefix | None = setting(
        BucketPrefix.parse, "gs://bucket or gs://bucket/prefix", "bucket='gs://my-bucket'", is_kept=False
    )
    service_account: str | None = setting(
        named("{word}@{word}"),
        "an e-mail address",
        "service_account='train@my-project.iam.gserviceaccount.com'",
    )
    network: str | None = setting(
        named("projects/{word}(?::{word})?/global/networks/{word}"),
        "the network's full name",
        "network='projects/PROJECT_NUMBER/global/networks/NAME'",
    )
    network_attachment: str | None = setting(
        named("projects/{word}(?::{word})?/regions/{word}/networkAttachments/{word}"),
        "the attachment's full name",
        "network_attachment='projects/P/regions/R/networkAttachments/NAME'",
    )
    tensorboard: str | None = setting(
        named("projects/{word}(?::{word})?/locations/{word}/tensorboards/{word}"),
        "the instance's full name",
        "tensorboard='projects/P/locations/R/tensorboards/ID'",
    )
    persistent_resource: str | None = setting(
        matching(r"[a-z][a-z0-9-]{0,62}"), "the resource's id", "persistent_resource='my-cluster'"
    )
    kms_key: str | None = setting(
        named("projects/{word}(?::{word})?/locations/{word}/keyRings/{word}/cryptoKeys/{word}"),
        "the key's full name",
        "kms_key='projects/P/locations/R/keyRings/K/cryptoKeys/N'",
    )
    management_fee: float | None = setting(
        _share, "a share of the machine's price, such as 0.2 for 20 %", "management_fee=0.2", is_kept=False
    )
    disk_gib: int = setting(fields.whole(100, 64_000), "100 to 64000", "disk_gib=100", is_needed=True)
    disk_type: str | None = setting(
        matching(r"pd-ssd|pd-standard|hyperdisk-balanced"),
        "pd-ssd, pd-standard or hyperdisk-balanced",
        "leave it out",
    )
    reduction_server: ReductionServer | None = setting(
        _one(ReductionServer),
        "a ReductionServer, of one machine or more",
        "reduction_server=ReductionServer(replicas=2)",
    )
    enable_web_access: bool = switch("enable_web_access=True")
    nfs_mounts: tuple[NfsMount, ...] = setting(
        fields.many(_one(NfsMount)),
        "a list of NfsMount",
        "nfs_mounts=[NfsMount(server='10.0.0.2', path='/share', mount_point='data')]",
        is_needed=True,
    )
    experiment: str | None = setting(
        named("projects/{word}(?::{word})?/locations/{word}/metadataStores/{word}/contexts/{word}"),
        "the experiment's full name",
        "experiment='projects/P/locations/R/metadataStores/default/contexts/NAME'",
    )
    experiment_run: str | None = setting(
        named("projects/{word}(?::{word})?/locations/{word}/metadataStores/{word}/contexts/{word}"),
        "the run's full name",
        "experiment_run='projects/P/locations/R/metadataStores/default/contexts/NAME-RUN'",
    )


ROWS = VertexSettings.rows()
ROWS["region"] = ROWS["regions"]
"""How each argument is read."""


def read_settings(**given: Any) -> VertexSettings:
    """The settings, or all their faults at once.

    Raises:
        SpecError: with all faults.
    """
    faults = Errors("VertexAI(...)")
    found = fields.read(ROWS, given, faults)
    regions = tuple(dict.fromkeys([*(found.pop("region") or ()), *(found.pop("regions") or ())]))
    faults.check(
        bool(regions) or not faults.is_clean("region", "regions"),
        "region",
        None,
        ROWS["regions"].expected,
        ROWS["regions"].fix,
    )
    has = {name for name, value in given.items() if value is not None}
    both = {"network", "network_attachment"} <= has
    faults.check(not both, "network", given["network"], "a network or an attachment", "drop one")
    has_account = "service_account" in has or "tensorboard" not in has
    faults.check(has_account, "service_account", None, "an account for tensorboard", "service_account=...")
    reaches = has & {"network", "network_attachment"} or not found["nfs_mounts"]
    faults.check(
        bool(reaches),
        "network",
        None,
        "a network for nfs_mounts",
        "network=... or network_attachment=...",
    )
    is_of_one = "experiment" in has or not found["experiment_run"]
    faults.check(bool(is_of_one), "experiment", None, "an experiment for the run", "experiment=...")
    faults.raise_if_any()
    settings = {name: value for name, value in found.items() if name not in OBJECTS}
    return VertexSettings(regions=regions, **settings)
