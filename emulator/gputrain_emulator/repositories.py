"""Artifact Registry v1: the repositories that images lie in.

`projects.locations.repositories` get and create, for the format DOCKER; what lies in them is
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
from gputrain_emulator.world import World

SERVICE = Service(name="artifactregistry", style=REGISTRY.style, is_tabled=True)


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


@SERVICE.method(
    "artifactregistry.projects.locations.repositories.get", permission="artifactregistry.repositories.get"
)
def get(call: Call) -> dict[str, Any]:
    found = call.world.part(Repositories).find(
        call.owner.id, call.params["location"], call.params["repository"]
    )
    if found is None:
        raise ApiError(404, "Requested entity was not found.")
    return found


@SERVICE.method(
    "artifactregistry.projects.locations.repositories.create",
    permission="artifactregistry.repositories.create",
)
def create(call: Call) -> dict[str, Any]:
    asked = call.body
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
    return _done(call, parts.add(name, asked))


def _done(call: Call, response: dict[str, Any]) -> dict[str, Any]:
    """An operation that has ended; Google's takes some seconds."""
    package = "google.devtools.artifactregistry.v1"
    where = f"projects/{call.owner.id}/locations/{call.params['location']}"
    return {
        "name": f"{where}/operations/{call.world.new_id()}",
        "metadata": {"@type": f"type.googleapis.com/{package}.OperationMetadata"},
        "done": True,
        "response": {"@type": f"type.googleapis.com/{package}.Repository", **response},
    }


SERVICES = (SERVICE,)
