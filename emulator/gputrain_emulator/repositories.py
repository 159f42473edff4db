"""Artifact Registry v1: the repositories that images lie in.

`projects.locations.repositories` get, list, create and delete, for the format DOCKER; what lies in them is
`gputrain_emulator.registry`'s. A repository that an image was added to is there.
"""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, bad_request
from gputrain_emulator.registry import SERVICE as REGISTRY, Registry
from gputrain_emulator.routes import Service
from gputrain_emulator.shapes import Choice, Map, integer, read
from gputrain_emulator.world import World

SERVICE = Service(name="artifactregistry", style=REGISTRY.style)
_PATH = "/v1/projects/{project}/locations/{location}/repositories"
_FORMATS = ("FORMAT_UNSPECIFIED", "DOCKER", "MAVEN", "NPM", "APT", "YUM", "PYTHON", "KFP", "GO", "GENERIC")
_SHAPE = {
    "name": str,
    "format": Choice({name: number for number, name in enumerate(_FORMATS)}),
    "description": str,
    "labels": Map(str),
    "kmsKeyName": str,
    "mode": Choice({"MODE_UNSPECIFIED": 0, "STANDARD_REPOSITORY": 1}),
    "dockerConfig": {"immutableTags": bool},
}


class Repositories:
    """The repositories that were made, by their full names."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kept: dict[str, dict[str, Any]] = {}

    def find(self, project: str, location: str, repository: str) -> dict[str, Any] | None:
        """The repository, made or known by an image in it."""
        name = f"projects/{project}/locations/{location}/repositories/{repository}"
        if name in self.kept:
            return self.kept[name]
        if any(one.startswith(f"{project}/{repository}/") for one in self.world.part(Registry).images):
            return self._described(name, {"format": "DOCKER"})
        return None

    def add(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Keep one; what it is told as."""
        self.kept[name] = self._described(name, asked)
        return self.kept[name]

    def _described(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        now = zulu_time(self.world.clock.now())
        return {
            **asked, "name": name, "createTime": now, "updateTime": now, "mode": "STANDARD_REPOSITORY",
        }  # fmt: skip


@SERVICE.route(
    "GET", _PATH + "/{repository}", "artifactregistry.projects.locations.repositories.get",
    permission="artifactregistry.repositories.get", query=frozenset(),
)  # fmt: skip
def get(call: Call) -> dict[str, Any]:
    return _found(call)


@SERVICE.route(
    "GET", _PATH, "artifactregistry.projects.locations.repositories.list",
    permission="artifactregistry.repositories.list", query=frozenset({"pageSize", "pageToken"}),
)  # fmt: skip
def list_repositories(call: Call) -> dict[str, Any]:
    begin = f"projects/{call.owner.id}/locations/{call.params['location']}/"
    kept = call.world.part(Repositories).kept
    after, size = call.query.get("pageToken", ""), integer(call.query, "pageSize", 100) or 100
    names = sorted(name for name in kept if name.startswith(begin) and name > after)
    more = {"nextPageToken": names[size - 1]} if len(names) > size else {}
    return {"repositories": [kept[name] for name in names[:size]], **more}


@SERVICE.route(
    "POST", _PATH, "artifactregistry.projects.locations.repositories.create",
    permission="artifactregistry.repositories.create", query=frozenset({"repositoryId"}),
)  # fmt: skip
def create(call: Call) -> dict[str, Any]:
    asked = read(_SHAPE, call.raw_body)
    repository = call.query.get("repositoryId", "")
    if not re.fullmatch(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", repository):
        raise bad_request([("repository_id", f"Invalid repository id {repository!r}.")])
    if asked.get("format") != "DOCKER":
        raise ApiError(
            501, f"The emulator keeps repositories of the format DOCKER, not {asked.get('format')}."
        )
    name = f"projects/{call.owner.id}/locations/{call.params['location']}/repositories/{repository}"
    parts = call.world.part(Repositories)
    if parts.find(call.owner.id, call.params["location"], repository) is not None:
        raise ApiError(409, "the repository already exists", canonical="ALREADY_EXISTS")
    return _done(call, parts.add(name, asked), "Repository")


@SERVICE.route(
    "DELETE", _PATH + "/{repository}", "artifactregistry.projects.locations.repositories.delete",
    permission="artifactregistry.repositories.delete", query=frozenset(),
)  # fmt: skip
def delete(call: Call) -> dict[str, Any]:
    name = _found(call)["name"]
    call.world.part(Repositories).kept.pop(name, None)
    images = call.world.part(Registry).images
    for one in [one for one in images if one.startswith(f"{call.owner.id}/{call.params['repository']}/")]:
        del images[one]
    return _done(call, {}, "")


def _found(call: Call) -> dict[str, Any]:
    found = call.world.part(Repositories).find(
        call.owner.id, call.params["location"], call.params["repository"]
    )
    if found is None:
        raise ApiError(404, "Requested entity was not found.")
    return found


def _done(call: Call, response: dict[str, Any], kind: str) -> dict[str, Any]:
    """An operation that has ended; Google's takes some seconds."""
    package = "google.devtools.artifactregistry.v1"
    full = f"{package}.{kind}" if kind else "google.protobuf.Empty"
    where = f"projects/{call.owner.id}/locations/{call.params['location']}"
    return {
        "name": f"{where}/operations/{call.world.new_id()}",
        "metadata": {"@type": f"type.googleapis.com/{package}.OperationMetadata"},
        "done": True,
        "response": {"@type": f"type.googleapis.com/{full}", **response},
    }


SERVICES = (SERVICE,)
