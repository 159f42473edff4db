"""What a project chooses once for all its VMs, checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from gputrain import fields
from gputrain.backends.google import OBJECTS, REGION, GoogleSettings, setting, switch
from gputrain.catalog import GpuNetworking
from gputrain.fields import Errors, matching, named
from gputrain.google.storage import BucketPrefix

NAME = "compute"
"""The backend's word in records and settings."""

ACCOUNT = "gputrain"
"""The service account that VMs run as where none is named: ``gputrain@PROJECT.iam.gserviceaccount.com``."""

LEAST_POLL_S = 0.05
"""Looks that follow each other at once never sleep, and soon spend the calls that Google grants a minute."""


_NAME = matching(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


def _shared(kind: str) -> Callable[[Any], str]:
    """A name in this project, or the full name of one that a Shared VPC's host project has."""
    return named(rf"[a-z](?:[-a-z0-9]{{0,61}}[a-z0-9])?|projects/{{word}}(?::{{word}})?/{kind}/{{word}}")


def _names(value: Any) -> tuple[str, ...]:
    """All of a list, as often as they stand there."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError
    return tuple(map(_shared("regions/{word}/subnetworks"), value))


@attrs.frozen(kw_only=True)
class ComputeSettings(GoogleSettings):
    """The constructor's arguments, as values. Everything that is less safe is False unless asked for."""

    regions: tuple[str, ...] = setting(
        fields.some(REGION),
        "one or more regions",
        "regions=['us-central1']; a zone has a letter more",
        is_needed=True,
        is_kept=False,
    )
    bucket: BucketPrefix = setting(
        BucketPrefix.parse,
        "gs://bucket or gs://bucket/prefix",
        "bucket='gs://my-bucket'",
        is_needed=True,
        is_kept=False,
    )
    service_account: str = setting(
        named("{word}@{word}"), "an e-mail address", "service_account='a@my-project.iam.gserviceaccount.com'"
    )
    network: str = setting(
        _shared("global/networks"), "the name of a VPC network, or its full name",
        "network='default', or of a Shared VPC 'projects/HOST/global/networks/NAME'", is_needed=True,
    )  # fmt: skip
    subnetwork: str | None = setting(
        _shared("regions/{word}/subnetworks"), "the name of a subnetwork in each region", "leave it out"
    )
    gpu_subnetworks: tuple[str, ...] = setting(
        _names, "a list of names", "gpu_subnetworks=['name']", is_needed=True
    )
    gpu_networking: GpuNetworking = setting(
        fields.one_of(GpuNetworking), fields.words(GpuNetworking), "gpu_networking='auto'", is_needed=True
    )
    nccl_plugin: str | None = setting(
        named(r"{word}(?:[/:@]{word})*(?<![-+])"), "an image, or a package", "leave it out"
    )  # apt takes a - or + at a name's end for an order
    nccl_daemon: str | None = setting(fields.named(), "an image", "leave it out")
    boot_image: str | None = setting(
        named("projects/{word}(?::{word})?/global/images/(?:family/)?{word}"),
        "an image's full name",
        "boot_image='projects/P/global/images/NAME'",
    )
    image_family: str | None = setting(
        named("{word}(?::{word})?/{word}"),
        "PROJECT/FAMILY",
        "image_family='deeplearning-platform-release/pytorch-2-9-cu129-ubuntu-2404-nvidia-580'",
    )
    disk_gib: int = setting(
        fields.whole(50, 64_000), "a whole number from 50 to 64000", "disk_gib=100", is_needed=True
    )
    disk_type: str | None = setting(
        matching(r"pd-(?:balanced|ssd)|hyperdisk-balanced"),
        "pd-balanced, pd-ssd or hyperdisk-balanced",
        "leave it out",
    )
    kms_key: str | None = setting(
        named("projects/{word}(?::{word})?/locations/{word}/keyRings/{word}/cryptoKeys/{word}"),
        "the key's full name",
        "kms_key='projects/P/locations/R/keyRings/K/cryptoKeys/N'",
    )
    placement_policy: str | None = setting(
        _NAME, "the name of a resource policy", "placement_policy='together'"
    )
    python: str | None = setting(
        named("(?:/{word})+"), "the path of a Python on the image", "python='/opt/conda/bin/python3'"
    )
    driver_wait_s: int = setting(
        fields.whole(0, 3600),
        "a whole number from 0 to 3600",
        "driver_wait_s=100",
        is_needed=True,
        is_kept=False,
    )
    external_ip: bool = switch("external_ip=True")
    check_network: bool = switch("check_network=False", is_kept=False)
    secure_boot: bool = switch("secure_boot=True")
    os_login: bool = switch("os_login=False")
    network_tags: tuple[str, ...] = setting(
        fields.many(_NAME), "a list of names", "network_tags=['name']", is_needed=True
    )
    capacity_advice: bool = switch("capacity_advice=False", is_kept=False)
    poll_s: float = setting(
        fields.number(LEAST_POLL_S, 3600),
        f"seconds, more than {LEAST_POLL_S} and less than an hour",
        "poll_s=5.0",
        is_needed=True,
        is_kept=False,
    )

    @property
    def network_project(self) -> str:
        """Where its networks are: this project, or the host of a Shared VPC."""
        return next(iter(_hosts(self.network, self.subnetwork, *self.gpu_subnetworks)), self.project)


def _hosts(*names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.split("/")[1] for name in names if name and "/" in name))


def short(name: str) -> str:
    """What a network or subnetwork is called in its project."""
    return name.rpartition("/")[2]


ROWS = ComputeSettings.rows()
"""How each argument is read."""


def read_settings(**given: Any) -> ComputeSettings:
    """The settings, every fault of them told at once.

    Raises:
        SpecError: with all faults.
    """
    faults = Errors("ComputeEngine(...)")
    found = fields.read(ROWS, given, faults)
    both = given["boot_image"] is not None and given["image_family"] is not None
    faults.check(not both, "image_family", given["image_family"], "an image or a family", "drop one")
    if faults.is_clean("network", "subnetwork", "gpu_subnetworks"):
        # Google refuses two interfaces in one subnetwork, once other VMs may have been made
        every = [found["subnetwork"] or found["network"], *found["gpu_subnetworks"]]
        hosts = _hosts(found["network"], found["subnetwork"], *found["gpu_subnetworks"])
        fix = "name all of them in the one host project"
        faults.check(len(hosts) < 2, "network", ", ".join(hosts), "networks of one project", fix)
        every = list(map(short, every))
        twice = next((one for one in every if every.count(one) > 1), "")
        allowed, fix = "another subnetwork for each interface, and none of the first", f"name {twice!r} once"
        faults.check(not twice, "gpu_subnetworks", given["gpu_subnetworks"], allowed, fix)
    faults.raise_if_any()
    domain, _, name = found["project"].rpartition(":")
    usual = f"{ACCOUNT}@{name}.{domain + '.' if domain else ''}iam.gserviceaccount.com"
    settings = {name: value for name, value in found.items() if name not in OBJECTS}
    return ComputeSettings(**{**settings, "service_account": found["service_account"] or usual})
