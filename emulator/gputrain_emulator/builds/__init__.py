"""Cloud Build v1: regional builds of images, as far as `docker build` goes.

A build fetches its source from the emulated Cloud Storage, reads the Dockerfile that it names, writes a log
into its bucket, and puts the image into the registry. Nothing is run: a Dockerfile whose instructions docker
knows, and whose files are there, is built; any other is refused as docker refuses it.
Not documented, and so a setting: how long a build waits and takes.
"""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator.builds.filters import matching
from gputrain_emulator.builds.state import IMAGE, Builds, Settings
from gputrain_emulator.call import Call
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.routes import Service
from gputrain_emulator.shapes import INT64, Choice, Map, integer, read

__all__ = ["SERVICES", "Builds", "Settings"]

SERVICE = Service(name="cloudbuild", style=Style.PLATFORM)
DOCKER = "gcr.io/cloud-builders/docker"
_PATH = "/v1/projects/{project}/locations/{location}/builds"
_LOGGING = ("LOGGING_UNSPECIFIED", "LEGACY", "GCS_ONLY", "STACKDRIVER_ONLY", "NONE", "CLOUD_LOGGING_ONLY")
_MACHINES = ("UNSPECIFIED", "N1_HIGHCPU_8", "N1_HIGHCPU_32", "E2_HIGHCPU_8", "E2_HIGHCPU_32", "E2_MEDIUM")
_SHAPE = {
    "source": {"storageSource": {"bucket": str, "object": str, "generation": INT64}},
    "steps": [{"name": str, "args": [str], "id": str, "env": [str], "dir": str, "timeout": str}],
    "images": [str],
    "tags": [str],
    "timeout": str,
    "queueTtl": str,
    "logsBucket": str,
    "serviceAccount": str,
    "substitutions": Map(str),
    "options": {
        "logging": Choice({name: number for number, name in enumerate(_LOGGING)}),
        "machineType": Choice({name: number for number, name in enumerate(_MACHINES)}),
        "diskSizeGb": INT64,
    },
}


@SERVICE.route(
    "POST", _PATH, "cloudbuild.projects.locations.builds.create",
    permission="cloudbuild.builds.create", query=frozenset(),
)  # fmt: skip
def create(call: Call) -> dict[str, Any]:
    asked = read(_SHAPE, call.raw_body)
    _check(call, asked)
    build = call.world.part(Builds).start(call.owner, call.params["location"], asked)
    return {
        "name": f"operations/build/{call.owner.id}/{build['id']}",
        "metadata": {
            "@type": "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata",
            "build": dict(build),
        },
    }


@SERVICE.route(
    "GET", _PATH + "/{build}", "cloudbuild.projects.locations.builds.get",
    permission="cloudbuild.builds.get", query=frozenset(),
)  # fmt: skip
def get(call: Call) -> dict[str, Any]:
    return _found(call)


@SERVICE.route(
    "GET", _PATH, "cloudbuild.projects.locations.builds.list",
    permission="cloudbuild.builds.list", query=frozenset({"filter", "pageSize", "pageToken"}),
)  # fmt: skip
def list_builds(call: Call) -> dict[str, Any]:
    wanted = matching(call.query.get("filter", ""))
    begin = f"projects/{call.owner.number}/locations/{call.params['location']}/"
    ones = [one for one in reversed(call.world.part(Builds).kept.values()) if one["name"].startswith(begin)]
    found = [one for one in ones if wanted(one)]
    size = integer(call.query, "pageSize", 100) or 100
    start = integer({"pageToken": call.query.get("pageToken", "")}, "pageToken", 0)
    more = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
    return {"builds": found[start : start + size], **more}


@SERVICE.route(
    "POST", _PATH + "/{build}:cancel", "cloudbuild.projects.locations.builds.cancel",
    permission="cloudbuild.builds.update", query=frozenset(),
)  # fmt: skip
def cancel(call: Call) -> dict[str, Any]:
    read({"projectId": str, "id": str, "name": str}, call.raw_body)
    build = _found(call)
    if build["status"] in ("QUEUED", "WORKING"):
        build.update(status="CANCELLED", finishTime=zulu_time(call.world.clock.now()))
    return build


def _check(call: Call, asked: dict[str, Any]) -> None:
    if not asked.get("steps"):
        raise ApiError(400, "invalid build: no build steps specified")
    if "storageSource" not in asked.get("source", {}):
        raise ApiError(501, "The emulator builds from a storageSource only.")
    others = [step.get("name") for step in asked["steps"] if step.get("name") != DOCKER]
    if others or any(step.get("args", [])[:1] != ["build"] for step in asked["steps"]):
        raise ApiError(
            501, f"The emulator runs `docker build` of {DOCKER} only, not {others or asked['steps']}."
        )
    if asked.get("serviceAccount") and not asked.get("logsBucket"):
        logging = asked.get("options", {}).get("logging")
        if logging not in ("CLOUD_LOGGING_ONLY", "NONE"):
            raise ApiError(
                400, "if 'build.service_account' is specified, the build must specify a logs bucket"
            )
    for image in asked.get("images", ()):
        found = IMAGE.fullmatch(image)
        if found is None or call.world.find_project(found[2]) is None:
            raise bad_request([("build.images", f"invalid image name {image!r}")])
    for tag in asked.get("tags", ()):
        if not re.fullmatch(r"[\w][\w.-]{0,127}", tag, re.ASCII):
            raise bad_request([("build.tags", f"invalid tag {tag!r}")])


def _found(call: Call) -> dict[str, Any]:
    found = call.world.part(Builds).kept.get(call.params["build"])
    if found is None or f"/{call.owner.number}/locations/{call.params['location']}/" not in found["name"]:
        raise ApiError(404, "Requested entity was not found.")
    return found


SERVICES = (SERVICE,)
