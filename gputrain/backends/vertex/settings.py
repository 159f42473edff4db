"""What a project chooses once for all its Vertex AI jobs, checked as a whole."""

from __future__ import annotations

import enum
import re
from typing import Any

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.staging.bucket import Bucket


class Transport(enum.Enum):
    """How the official client speaks."""

    REST = "rest"
    GRPC = "grpc"


@attrs.frozen(kw_only=True)
class ReductionServer:
    """Extra CPU machines that sum gradients for the trainers (Vertex AI's Reduction Server).

    For V100 and A100 machines with NCCL: it replaces the network plug-in that A3 and A4 machines bring.
    ``replicas`` times the machine's egress should reach that of the trainers together.

    Source: Vertex AI distributed training documentation, read 2026-11-20.
    """

    replicas: int
    machine_type: str = "n1-highcpu-16"
    image: str = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


@attrs.frozen(kw_only=True)
class Settings:
    """The constructor's arguments, as values."""

    project: str
    regions: tuple[str, ...]
    bucket: Bucket | None
    service_account: str | None
    network: str | None
    network_attachment: str | None
    tensorboard: str | None
    persistent_resource: str | None
    kms_key: str | None
    disk_gib: int
    disk_type: str | None
    reduction_server: ReductionServer | None
    transport: Transport

    @property
    def home(self) -> str:
        """The region that the bucket lies in: the first one."""
        return self.regions[0]


# field: the form of its text, what it is, and an example
# ruff: noqa: E501  # one row a field
_FORMS = {
    "project": (r"[a-z][a-z0-9-]{4,28}[a-z0-9]|[a-z0-9.]+:[a-z][a-z0-9-]+", "a project's id", "project='my-project'"),
    "service_account": (r"[^@\s/]+@[^@\s/]+", "an e-mail address", "service_account='train@my-project.iam.gserviceaccount.com'"),
    "network": (
        r"projects/[^/\s]+/global/networks/[^/\s]+", "the network's full name",
        "network='projects/PROJECT_NUMBER/global/networks/NAME'",
    ),
    "network_attachment": (
        r"projects/[^/\s]+/regions/[^/\s]+/networkAttachments/[^/\s]+", "the attachment's full name",
        "network_attachment='projects/P/regions/R/networkAttachments/NAME'",
    ),
    "tensorboard": (
        r"projects/[^/\s]+/locations/[^/\s]+/tensorboards/[^/\s]+", "the instance's full name",
        "tensorboard='projects/P/locations/R/tensorboards/ID'",
    ),
    "kms_key": (
        r"projects/[^/\s]+/locations/[^/\s]+/keyRings/[^/\s]+/cryptoKeys/[^/\s]+", "the key's full name",
        "kms_key='projects/P/locations/R/keyRings/K/cryptoKeys/N'",
    ),
    "persistent_resource": (r"[a-z][a-z0-9-]{0,62}", "the resource's id", "persistent_resource='my-cluster'"),
    "disk_type": (r"pd-ssd|pd-standard|hyperdisk-balanced", "pd-ssd, pd-standard or hyperdisk-balanced", "leave it out"),
}  # fmt: skip
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def read_settings(
    *,
    region: str | None,
    regions: Any,
    bucket: str | None,
    transport: str | Transport,
    disk_gib: int,
    **texts: Any,
) -> Settings:
    """The settings, every fault of them told at once.

    Raises:
        SpecError: with all faults.
    """
    faults: list[Fault] = []
    for field, (form, allowed, fix) in _FORMS.items():
        value = texts[field]
        needed = field == "project"
        if (value is not None or needed) and not (isinstance(value, str) and re.fullmatch(form, value)):
            faults.append(Fault(field=field, value=repr(value), allowed=allowed, fix=fix))
    places = _regions(region, regions, faults)
    if texts["network"] and texts["network_attachment"]:
        faults.append(
            Fault(
                field="network", value=texts["network"], allowed="a network or an attachment", fix="drop one"
            )
        )
    if texts["tensorboard"] and not texts["service_account"]:
        faults.append(
            Fault(
                field="service_account",
                value="None",
                allowed="set, where tensorboard is",
                fix="service_account=...",
            )
        )
    if isinstance(disk_gib, bool) or not isinstance(disk_gib, int) or not 100 <= disk_gib <= 64_000:
        faults.append(
            Fault(field="disk_gib", value=repr(disk_gib), allowed="100 to 64000", fix="disk_gib=100")
        )
    where = _bucket(bucket, faults)
    how = _transport(transport, faults)
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise SpecError(f"VertexAI(...) has {len(faults)} fault(s):\n{text}", faults=tuple(faults))
    assert how is not None
    return Settings(regions=places, bucket=where, transport=how, disk_gib=disk_gib, **texts)


def _regions(region: str | None, regions: Any, faults: list[Fault]) -> tuple[str, ...]:
    one = () if region is None else (region,)
    many = (regions,) if isinstance(regions, str) else tuple(regions or ())
    found = tuple(dict.fromkeys([*one, *many]))
    known = [place for place in found if isinstance(place, str) and _REGION.fullmatch(place)]
    if not found or len(known) != len(found):
        value = repr(found) if found else "None"
        fix = "region='us-central1'; a zone has a letter more than its region"
        faults.append(Fault(field="region", value=value, allowed="one or more regions", fix=fix))
    return tuple(known)


def _bucket(bucket: str | None, faults: list[Fault]) -> Bucket | None:
    if bucket is None:
        return None
    try:
        return Bucket.parse(bucket)
    except SpecError as error:
        faults.extend(error.faults)
        return None


def _transport(transport: str | Transport, faults: list[Fault]) -> Transport | None:
    try:
        return Transport(transport)
    except ValueError:
        faults.append(
            Fault(field="transport", value=repr(transport), allowed="'rest' or 'grpc'", fix="leave it out")
        )
        return None
