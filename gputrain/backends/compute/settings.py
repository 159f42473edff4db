"""What a project chooses once for all its VMs, checked as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from gputrain import fields
from gputrain.backends.google import REGION, GoogleSettings, account, kms_key, of_project, setting, switch
from gputrain.catalog import GpuNetworking
from gputrain.fields import Errors, matching, named
from gputrain.google.storage import BucketPrefix

NAME = "compute"
"""The backend's word in records and settings."""

ACCOUNT = "gputrain"
"""The service account that VMs run as where none is named: ``gputrain@PROJECT.iam.gserviceaccount.com``."""

LEAST_POLL_S = 0.05
"""Looks that follow each other at once never sleep, and soon spend the calls that Google grants a minute."""

_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBNETWORKS = "regions/{word}/subnetworks"


def _shared(kind: str) -> Callable[[Any], str]:
    """A name in this project, or the full name of one that a Shared VPC's host project has."""
    return named(rf"{_NAME}|projects/{{word}}(?::{{word}})?/{kind}/{{word}}")


@attrs.frozen(kw_only=True)
class ComputeSettings(GoogleSettings):
    """The constructor's arguments, as values. Everything that is less safe is False unless asked for."""

    # fmt: off
    regions: tuple[str, ...] = setting(
        fields.some(REGION), "regions, or any", "regions=['us-central1']; a zone has a letter more",
        is_needed=True, is_kept=False)
    bucket: BucketPrefix | None = setting(
        BucketPrefix.parse, "gs://bucket or gs://bucket/prefix", "bucket='gs://my-bucket'", is_kept=False)
    service_account: str = account("service_account='a@my-project.iam.gserviceaccount.com'")
    network: str = setting(
        _shared("global/networks"), "the name of a VPC network, or its full name",
        "network='default', or of a Shared VPC 'projects/HOST/global/networks/NAME'", is_needed=True)
    subnetwork: str | None = setting(
        _shared(_SUBNETWORKS), "the name of a subnetwork in each region", "leave it out")
    gpu_subnetworks: tuple[str, ...] = setting(
        fields.many(_shared(_SUBNETWORKS)), "a list of names", "gpu_subnetworks=['name']", is_needed=True)
    gpu_networking: GpuNetworking = setting(
        fields.one_of(GpuNetworking), fields.words(GpuNetworking), "gpu_networking='auto'", is_needed=True)
    nccl_plugin: str | None = setting(  # apt takes a - or + at a name's end for an order
        named(r"{word}(?:[/:@]{word})*(?<![-+])"), "an image, or a package", "leave it out")
    nccl_daemon: str | None = setting(fields.named(), "an image", "leave it out")
    boot_image: str | None = of_project(
        "global/images/(?:family/)?{word}", "an image's full name",
        "boot_image='projects/P/global/images/NAME'")
    image_family: str | None = setting(
        named("{word}(?::{word})?/{word}"), "PROJECT/FAMILY",
        "image_family='deeplearning-platform-release/pytorch-2-9-cu129-ubuntu-2404-nvidia-580'")
    disk_gib: int = setting(
        fields.whole(50, 64_000), "a whole number from 50 to 64000", "disk_gib=100", is_needed=True)
    disk_type: str | None = setting(
        matching(r"pd-(?:balanced|ssd)|hyperdisk-balanced"), "pd-balanced, pd-ssd or hyperdisk-balanced",
        "leave it out")
    kms_key: str | None = kms_key()
    placement_policy: str | None = setting(
        matching(_NAME), "the name of a resource policy", "placement_policy='together'")
    python: str | None = setting(
        named("(?:/{word})+"), "the path of a Python on the image", "python='/opt/conda/bin/python3'")
    driver_wait_s: int = setting(
        fields.whole(0, 3600), "a whole number from 0 to 3600", "driver_wait_s=100",
        is_needed=True, is_kept=False)
    external_ip: bool = switch("external_ip", False)
    check_network: bool = switch("check_network", True, is_kept=False)
    secure_boot: bool = switch("secure_boot", False)
    os_login: bool = switch("os_login", True)
    network_tags: tuple[str, ...] = setting(
        fields.many(matching(_NAME)), "a list of names", "network_tags=['name']", is_needed=True)
    capacity_advice: bool = switch("capacity_advice", True, is_kept=False)
    poll_s: float = setting(
        fields.number(LEAST_POLL_S, 3600), f"seconds, more than {LEAST_POLL_S} and less than an hour",
        "poll_s=5.0", is_needed=True, is_kept=False)
    # fmt: on

    @property
    def network_project(self) -> str:
        """Where its networks are: this project, or the host of a Shared VPC."""
        return next(iter(_hosts(self.network, self.subnetwork, *self.gpu_subnetworks)), self.project)

    @classmethod
    def complete(cls, found: dict[str, Any], faults: Errors) -> None:
        family = found["image_family"]
        faults.check(
            not (found["boot_image"] and family), "image_family", family, "an image or a family", "drop one"
        )
        if faults.is_clean("network", "subnetwork", "gpu_subnetworks"):
            hosts = _hosts(found["network"], found["subnetwork"], *found["gpu_subnetworks"])
            fix = "name all of them in the one host project"
            faults.check(len(hosts) < 2, "network", ", ".join(hosts), "networks of one project", fix)
        if found["service_account"] is None and faults.is_clean("project"):
            domain, _, name = found["project"].rpartition(":")
            found["service_account"] = (
                f"{ACCOUNT}@{name}.{domain + '.' if domain else ''}iam.gserviceaccount.com"
            )


def _hosts(*names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.split("/")[1] for name in names if name and "/" in name))


def short(name: str) -> str:
    """What a network or subnetwork is called in its project."""
    return name.rpartition("/")[2]
