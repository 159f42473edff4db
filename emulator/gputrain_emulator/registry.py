"""Artifact Registry: its repositories, and which images there are, by tag and digest, as engines ask.

The manifests of the OCI distribution specification 1.1 (`/v2/NAME/manifests/REFERENCE`), for GET and HEAD;
layers are not kept, so nothing can be pulled. One port serves all registry hosts. Of v1 the
`projects.locations.repositories` get and create, for the format DOCKER.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.routes import Service
from gputrain_emulator.world import World

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PUBLIC = r"vertex-ai/(training|prediction)/[a-z0-9][a-z0-9._-]*"
"""Google's own images, which everybody may read and whose every tag is taken for real."""
PERMISSION = "artifactregistry.repositories.downloadArtifacts"
MOST_SEGMENTS = 6

SERVICE = Service(name="artifactregistry", style=Style.PLATFORM, is_tabled=True)


class Registry:
    """The images that were added, by name without host and tag."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.images: dict[str, dict[str, tuple[str, ...]]] = {}

    def add(self, name: str, platforms: tuple[str, ...]) -> None:
        """An image such as ``us-docker.pkg.dev/my-project/train/image:1``, built for the platforms."""
        found = re.fullmatch(r"[^/]+/([^:@]+)(?::([\w.-]+))?", name)
        if found is None or not all(re.fullmatch(r"\w+/\w+", one) for one in platforms):
            raise ValueError(f"not an image, or not platforms such as linux/amd64: {name} {platforms}")
        self.images.setdefault(found[1], {})[found[2] or "latest"] = platforms

    def find(self, name: str, reference: str) -> tuple[str, bytes] | None:
        """Media type and bytes of a manifest, by tag or digest; None where there is none."""
        tags = self.images.get(name, {})
        if not tags and re.fullmatch(PUBLIC, name):
            tags = {reference if ":" not in reference else "latest": ("linux/amd64",)}
        for tag, platforms in tags.items():
            kind, body = _manifest(name, tag, platforms)
            if reference in (tag, digest_of(body)):
                return kind, body
        return None


def digest_of(body: bytes) -> str:
    """The name that a manifest has by its content."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _manifest(name: str, tag: str, platforms: tuple[str, ...]) -> tuple[str, bytes]:
    if len(platforms) == 1:
        config = _descriptor("application/vnd.oci.image.config.v1+json", f"{name}:{tag} {platforms[0]}")
        document: dict[str, Any] = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}
        return MANIFEST, json.dumps(document).encode()
    members = [
        {
            **_descriptor(MANIFEST, f"{name}:{tag} {one}"),
            "platform": dict(zip(("os", "architecture"), one.split("/"))),
        }
        for one in platforms
    ]
    return INDEX, json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": members}).encode()


def _descriptor(kind: str, text: str) -> dict[str, Any]:
    return {"mediaType": kind, "size": len(text), "digest": digest_of(text.encode())}


def read_manifest(call: Call) -> Reply:
    """One manifest, as far as the caller may see it."""
    names = [value for key, value in call.params.items() if key != "reference"]
    name, owner = "/".join(names), names[0]
    if not re.fullmatch(PUBLIC, name) and not call.caller.may(PERMISSION):
        text = f'Permission "{PERMISSION}" denied on resource "projects/{owner}" (or it may not exist)'
        return _refusal(403, "DENIED", text)
    found = call.world.part(Registry).find(name, call.params["reference"])
    if found is None:
        return _refusal(404, "MANIFEST_UNKNOWN", f'Failed to fetch "{call.params["reference"]}"')
    kind, body = found
    accepted = call.headers.get("accept", "*/*")
    if kind not in accepted and "*/*" not in accepted:
        return _refusal(404, "MANIFEST_UNKNOWN", f"The manifest is {kind}, which is not accepted.")
    return Reply(body=body, content_type=kind, headers={"Docker-Content-Digest": digest_of(body)})


def _refusal(status: int, code: str, message: str) -> Reply:
    return Reply(status=status, body={"errors": [{"code": code, "message": message}]})


for _count in range(2, MOST_SEGMENTS + 1):
    _names = "/".join(f"{{part{number}}}" for number in range(_count))
    _path, _id = f"/v2/{_names}/manifests/{{reference}}", f"artifactregistry.manifests.get{_count}"
    SERVICE.route("GET", _path, _id, permission="-")(read_manifest)


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
        sentence = f"The emulator keeps repositories of the format DOCKER, not {asked.get('format')}."
        raise ApiError(501, sentence)
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
