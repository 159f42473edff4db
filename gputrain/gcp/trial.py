"""Remedies on a trial: what says ``gcloud`` goes to the emulator, and never to Google by mistake. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

_LOGIN = "run `gcloud auth application-default login`, or pass credentials="
_BUCKET = re.compile(
    r"gcloud storage buckets create gs://(?P<name>\S+)(?: --project \S+| --location (?P<location>\S+))*"
)
_API = re.compile(
    r"gcloud services enable (?P<api>[a-z]+)\.googleapis\.com(?: --project \w[\w-]*)?"
    r"(?:; then wait a few minutes)?"
)
_ACCOUNT = re.compile(
    r"gcloud iam service-accounts (?:create|enable) (?P<name>\S+) --project (?P<project>[^\s;,]+)"
)
_ROUTERS = re.compile(r"gcloud compute routers create [^;]+(?:; or external_ip=True)?")
_PROJECTS = re.compile(r"gcloud projects list\b")
_OTHER = re.compile(r"(?:CLOUDSDK_\S+ )*(?<![\w`])(?P<line>gcloud (?P<group>[a-z]+) )(?=[a-z])")
_SERVICES = {
    "compute": ("COMPUTE", "/compute/v1/"),
    "storage": ("STORAGE", "/storage/v1/"),
    "iam": ("IAM", "/"),
    "projects": ("CLOUDRESOURCEMANAGER", "/"),
    "services": ("SERVICEUSAGE", "/"),
    "artifacts": ("ARTIFACTREGISTRY", "/"),
    "builds": ("CLOUDBUILD", "/"),
}
"""gcloud's first word -> the service whose address it is to take, and that address's path."""


def fitted(fix: str, trial: str) -> str:
    """A remedy as it fits somebody who tries with an emulator, however often; as it is where nobody does.

    Args:
        trial: how the person calls the emulator: its address, or the variable that holds it; empty: Google.

    >>> fitted("gcloud storage buckets create gs://b --project p --location us-central1", "http://127.0.0.1:1")
    'curl --data \\'{"name":"b","location":"us-central1"}\\' http://127.0.0.1:1/_emulator/add_bucket'
    >>> fitted("gcloud compute networks list", "http://127.0.0.1:1").partition(" ")[0]
    'CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true'
    """
    if not trial:
        return fix
    fix = fix.replace(_LOGIN, "give the endpoint as `gputrain-emulator` prints it, with its token")
    fix = _PROJECTS.sub(
        "take the project that `gputrain-emulator` prints, my-project unless it was told", fix
    )
    fix = _ROUTERS.sub("external_ip=True, as the emulator makes no routers", fix)
    fix = _BUCKET.sub(_told(trial, "add_bucket", lambda one: one.groupdict()), fix)
    fix = _API.sub(_told(trial, "enable_api", lambda one: one.groupdict()), fix)
    fix = _ACCOUNT.sub(_told(trial, "service_account", lambda one: {"email": _email(one)}), fix)
    return _OTHER.sub(lambda one: f"{_led(trial, one['group'])} {one['line']}", fix)


def _told(
    trial: str, command: str, arguments: Callable[[re.Match[str]], dict[str, str]]
) -> Callable[[re.Match[str]], str]:
    """What writes the emulator's own command for what a pattern has found."""

    def written(found: re.Match[str]) -> str:
        told = {name: value for name, value in arguments(found).items() if value}
        return (
            f"curl --data {shlex.quote(json.dumps(told, separators=(',', ':')))} {trial}/_emulator/{command}"
        )

    return written


def _email(found: re.Match[str]) -> str:
    name = found["name"]
    return name if "@" in name else f"{name}@{found['project']}.iam.gserviceaccount.com"


def _led(trial: str, group: str) -> str:
    """The variables with which gcloud comes to the emulator, for one command."""
    service, path = _SERVICES.get(group, ("", ""))
    address = f" CLOUDSDK_API_ENDPOINT_OVERRIDES_{service}={trial}{path}" if service else ""
    return f"CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true{address}"
