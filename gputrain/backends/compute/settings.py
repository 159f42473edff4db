"""What a project chooses once for all its VMs, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.staging.bucket import Bucket

ACCOUNT = "gputrain"
"""The service account that VMs run as where none is named: ``gputrain@PROJECT.iam.gserviceaccount.com``."""


@attrs.frozen(kw_only=True)
class Settings:
    """The constructor's arguments, as values. Everything that is less safe is False unless asked for."""

    project: str
    regions: tuple[str, ...]
    bucket: Bucket
    service_account: str
    network: str
    subnetwork: str | None
    gpu_subnetworks: tuple[str, ...]
    boot_image: str | None
    image_family: str | None
    disk_gib: int
    disk_type: str | None
    placement_policy: str | None
    python: str | None
    driver_wait_s: int
    external_ip: bool
    check_network: bool
    secure_boot: bool
    os_login: bool
    network_tags: tuple[str, ...]

    @property
    def home(self) -> str:
        """The region that the bucket lies in: the first one."""
        return self.regions[0]


_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_FORMS: Mapping[str, tuple[str, str, str]] = {
    "project": (
        r"[a-z][a-z0-9-]{4,28}[a-z0-9]|[a-z0-9.]+:[a-z][a-z0-9-]+", "a project's id", "project='my-project'",
    ),
    "service_account": (
        r"[^@\s/]+@[^@\s/]+", "an e-mail address", "service_account='a@my-project.iam.gserviceaccount.com'",
    ),
    "network": (_NAME, "the name of a VPC network", "network='default'"),
    "subnetwork": (_NAME, "the name of a subnetwork in each region", "leave it out"),
    "boot_image": (
        r"projects/[^/\s]+/global/images/(?:family/)?[^/\s]+", "an image's full name",
        "boot_image='projects/P/global/images/NAME'",
    ),
    "image_family": (
        r"[^/\s]+/[^/\s]+", "PROJECT/FAMILY",
        "image_family='deeplearning-platform-release/pytorch-2-9-cu129-ubuntu-2404-nvidia-580'",
    ),
    "disk_type": (
        r"pd-(?:balanced|ssd)|hyperdisk-balanced", "pd-balanced, pd-ssd or hyperdisk-balanced",
        "leave it out",
    ),
    "placement_policy": (_NAME, "the name of a resource policy", "placement_policy='together'"),
    "python": (r"/\S+", "the path of a Python on the image", "python='/opt/conda/bin/python3'"),
}  # fmt: skip
_NEEDED = ("project", "network")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def read_settings(
    *,
    regions: Any,
    bucket: Any,
    disk_gib: Any,
    driver_wait_s: Any,
    gpu_subnetworks: Any,
    network_tags: Any,
    **given: Any,
) -> Settings:
    """The settings, every fault of them told at once.

    Raises:
        SpecError: with all faults.
    """
    faults: list[Fault] = []

    def add(field: str, value: object, allowed: str, fix: str) -> None:
        faults.append(Fault(field=field, value=repr(value), allowed=allowed, fix=fix))

    for field, (form, allowed, fix) in _FORMS.items():
        value = given[field]
        if (value is not None or field in _NEEDED) and not _fits(form, value):
            add(field, value, allowed, fix)
    for field, many in (("gpu_subnetworks", gpu_subnetworks), ("network_tags", network_tags)):
        if isinstance(many, str) or not all(_fits(_NAME, one) for one in many):
            add(field, many, "a list of names", f"{field}=['name']")
    places = (regions,) if isinstance(regions, str) else tuple(dict.fromkeys(regions or ()))
    if not places or not all(isinstance(one, str) and _REGION.fullmatch(one) for one in places):
        add("regions", regions, "one or more regions", "regions=['us-central1']; a zone has a letter more")
    for field, number, least, most in (
        ("disk_gib", disk_gib, 50, 64_000),
        ("driver_wait_s", driver_wait_s, 0, 3600),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            add(field, number, f"a whole number from {least} to {most}", f"{field}={max(least, 100)}")
    if given["boot_image"] and given["image_family"]:
        add("image_family", given["image_family"], "an image or a family", "drop one")
    home = _bucket(bucket, faults)
    if faults or home is None:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise SpecError(f"ComputeEngine(...) has {len(faults)} fault(s):\n{text}", faults=tuple(faults))
    given["service_account"] = given["service_account"] or _own_account(given["project"])
    return Settings(
        regions=places,
        bucket=home,
        disk_gib=disk_gib,
        driver_wait_s=driver_wait_s,
        gpu_subnetworks=tuple(gpu_subnetworks),
        network_tags=tuple(network_tags),
        **given,
    )


def _fits(form: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(form, value) is not None


def _own_account(project: str) -> str:
    domain, _, name = project.rpartition(":")
    return f"{ACCOUNT}@{name}.{domain + '.' if domain else ''}iam.gserviceaccount.com"


def _bucket(bucket: Any, faults: list[Fault]) -> Bucket | None:
    try:
        return Bucket.parse(bucket)
    except SpecError as error:
        faults.extend(error.faults)
        return None
