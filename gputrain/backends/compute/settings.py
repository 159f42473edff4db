"""What a project chooses once for all its VMs, checked as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from gputrain import fields
from gputrain.backends.base import JobRef
from gputrain.backends.compute.names import JobPlace
from gputrain.backends.google import IMAGE_REPOSITORY, OBJECTS, PROJECT, REGION, GoogleSettings
from gputrain.catalog import GpuNetworking
from gputrain.fields import FaultCollector, Field, matching, named
from gputrain.gcp.buckets import BucketPrefix

ACCOUNT = "gputrain"
"""The service account that VMs run as where none is named: ``gputrain@PROJECT.iam.gserviceaccount.com``."""

LEAST_POLL_S = 0.05
"""Looks that follow each other at once never sleep, and soon spend the calls that Google grants a minute."""


@attrs.frozen(kw_only=True)
class ComputeSettings(GoogleSettings):
    """The constructor's arguments, as values. Everything that is less safe is False unless asked for."""

    bucket: BucketPrefix
    service_account: str
    network: str
    subnetwork: str | None
    gpu_subnetworks: tuple[str, ...]
    gpu_networking: GpuNetworking
    nccl_plugin: str | None
    nccl_daemon: str | None
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
    capacity_advice: bool
    poll_s: float

    def check_ref(self, ref: JobRef) -> None:
        """As of `ChecksRefs`: by the project and the bucket."""
        super().check_ref(ref)
        self._check("bucket", ref, JobPlace.parse(ref.place).bucket.uri(), self.bucket.uri())


_NAME = matching(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


def _names(value: Any) -> tuple[str, ...]:
    """All of a list, as often as they stand there."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError
    return tuple(map(_NAME, value))


def _switch(fix: str) -> Field:
    return Field(fields.instance(bool), "True or False", fix, is_needed=True)


ROWS = {
    "project": PROJECT,
    "regions": Field(
        fields.some(REGION), "one or more regions",
        "regions=['us-central1']; a zone has a letter more", is_needed=True,
    ),
    "bucket": Field(
        BucketPrefix.parse, "gs://bucket or gs://bucket/prefix", "bucket='gs://my-bucket'", is_needed=True
    ),
    "image_repository": IMAGE_REPOSITORY,
    "service_account": Field(
        named("{word}@{word}"), "an e-mail address",
        "service_account='a@my-project.iam.gserviceaccount.com'",
    ),
    "network": Field(_NAME, "the name of a VPC network", "network='default'", is_needed=True),
    "subnetwork": Field(_NAME, "the name of a subnetwork in each region", "leave it out"),
    "gpu_subnetworks": Field(_names, "a list of names", "gpu_subnetworks=['name']", is_needed=True),
    "gpu_networking": Field(
        fields.one_of(GpuNetworking), fields.words(GpuNetworking), "gpu_networking='auto'", is_needed=True
    ),
    "nccl_plugin": Field(
        named(r"{word}(?:[/:@]{word})*(?<![-+])"), "an image, or a package", "leave it out"
    ),  # apt takes a - or + at a name's end for an order
    "nccl_daemon": Field(fields.named(), "an image", "leave it out"),
    "boot_image": Field(
        named("projects/{word}(?::{word})?/global/images/(?:family/)?{word}"), "an image's full name",
        "boot_image='projects/P/global/images/NAME'",
    ),
    "image_family": Field(
        named("{word}(?::{word})?/{word}"), "PROJECT/FAMILY",
        "image_family='deeplearning-platform-release/pytorch-2-9-cu129-ubuntu-2404-nvidia-580'",
    ),
    "disk_gib": Field(
        fields.whole(50, 64_000), "a whole number from 50 to 64000", "disk_gib=100", is_needed=True
    ),
    "disk_type": Field(
        matching(r"pd-(?:balanced|ssd)|hyperdisk-balanced"), "pd-balanced, pd-ssd or hyperdisk-balanced",
        "leave it out",
    ),
    "placement_policy": Field(_NAME, "the name of a resource policy", "placement_policy='together'"),
    "python": Field(
        named("(?:/{word})+"), "the path of a Python on the image", "python='/opt/conda/bin/python3'"
    ),
    "driver_wait_s": Field(
        fields.whole(0, 3600), "a whole number from 0 to 3600", "driver_wait_s=100", is_needed=True
    ),
    "external_ip": _switch("external_ip=True"),
    "check_network": _switch("check_network=False"),
    "secure_boot": _switch("secure_boot=True"),
    "os_login": _switch("os_login=False"),
    "network_tags": Field(fields.many(_NAME), "a list of names", "network_tags=['name']", is_needed=True),
    "capacity_advice": _switch("capacity_advice=False"),
    "poll_s": Field(
        fields.number(LEAST_POLL_S, 3600), f"seconds, more than {LEAST_POLL_S} and less than an hour",
        "poll_s=5.0", is_needed=True,
    ),
    **OBJECTS,
}  # fmt: skip
"""How each argument is read."""


def read_settings(**given: Any) -> ComputeSettings:
    """The settings, every fault of them told at once.

    Raises:
        SpecError: with all faults.
    """
    faults = FaultCollector("ComputeEngine(...)")
    found = fields.read(ROWS, given, faults)
    both = given["boot_image"] is not None and given["image_family"] is not None
    faults.check(not both, "image_family", given["image_family"], "an image or a family", "drop one")
    if faults.is_clean("network", "subnetwork", "gpu_subnetworks"):
        # Google refuses two interfaces in one subnetwork, once other VMs may have been made
        every = [found["subnetwork"] or found["network"], *found["gpu_subnetworks"]]
        twice = next((one for one in every if every.count(one) > 1), "")
        allowed, fix = "another subnetwork for each interface, and none of the first", f"name {twice!r} once"
        faults.check(not twice, "gpu_subnetworks", given["gpu_subnetworks"], allowed, fix)
    faults.raise_if_any()
    domain, _, name = found["project"].rpartition(":")
    usual = f"{ACCOUNT}@{name}.{domain + '.' if domain else ''}iam.gserviceaccount.com"
    settings = {name: value for name, value in found.items() if name not in OBJECTS}
    return ComputeSettings(**{**settings, "service_account": found["service_account"] or usual})
