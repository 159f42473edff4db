"""Cloud Build v1: regional builds of images, as far as `docker build` goes.

A build fetches its source from the emulated Cloud Storage, reads the Dockerfile that it names, writes a log
into its bucket, and puts the image into the registry. Nothing is run: a Dockerfile whose instructions docker
knows, and whose files are there, is built; any other is refused as docker refuses it.
Not documented, and so a setting: how long a build waits and takes.
"""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator import query
from gputrain_emulator.builds.state import IMAGE, Builds, Settings
from gputrain_emulator.call import Call, numbered
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.routes import Service

__all__ = ["SERVICES", "Builds", "Settings"]

SERVICE = Service(name="cloudbuild", style=Style.PLATFORM, is_tabled=True)
DOCKER = "gcr.io/cloud-builders/docker"


@SERVICE.method("cloudbuild.projects.locations.builds.create", permission="cloudbuild.builds.create")
def create(call: Call) -> dict[str, Any]:
    _check(call, call.body)
    build = call.world.part(Builds).start(call.owner, call.params["location"], call.body)
    return {
        "name": f"operations/build/{call.owner.id}/{build['id']}",
        "metadata": {
            "@type": "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata",
            "build": dict(build),
        },
    }


@SERVICE.method("cloudbuild.projects.locations.builds.get", permission="cloudbuild.builds.get")
def get(call: Call) -> dict[str, Any]:
    return _found(call)


@SERVICE.method("cloudbuild.projects.locations.builds.list", permission="cloudbuild.builds.list")
def list_builds(call: Call) -> dict[str, Any]:
    wanted = _filter(call.query.get("filter", ""))
    begin = f"projects/{call.owner.number}/locations/{call.params['location']}/"
    ones = [one for one in reversed(call.world.part(Builds).kept.values()) if one["name"].startswith(begin)]
    return numbered(call, "builds", [one for one in ones if wanted(one)], default=100, most=1000)


@SERVICE.method("cloudbuild.projects.locations.builds.cancel", permission="cloudbuild.builds.update")
def cancel(call: Call) -> dict[str, Any]:
    build = _found(call)
    if build["status"] in ("QUEUED", "WORKING"):
        build.update(status="CANCELLED", finishTime=zulu_time(call.world.clock.now()))
    return build


def _filter(text: str) -> query.Test:
    def leaf(leaf: query.Leaf) -> query.Test:
        if leaf.path not in (("status",), ("tags",)) or leaf.operator != "=":
            raise query.FilterError(f"unsupported: {'.'.join(leaf.path)} {leaf.operator}")
        if leaf.path == ("tags",):
            return lambda build: leaf.value in build.get("tags", ())
        return lambda build: bool(build["status"] == leaf.value)

    try:
        return query.compiled(text, leaf)
    except query.FilterError as error:
        raise ApiError(400, f"Invalid filter: {error}") from None


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
