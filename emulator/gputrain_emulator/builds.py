"""Cloud Build v1: regional builds of images, as far as `docker build` goes.

A build fetches its source from the emulated Cloud Storage, reads the Dockerfile that it names, writes a log
into its bucket, and puts the image into the registry. Nothing is run: a Dockerfile whose instructions docker
knows, and whose files are there, is built; any other is refused as docker refuses it.
Not documented, and so a setting: how long a build waits and takes.
"""

from __future__ import annotations

import io
import re
import tarfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputrain_emulator import query
from gputrain_emulator.call import Call, numbered
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.registry import Registry, Repositories, digest_of
from gputrain_emulator.routes import Service
from gputrain_emulator.storage import Storage
from gputrain_emulator.world import Project, World

_INSTRUCTIONS = frozenset(
    """ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL
    USER VOLUME WORKDIR""".split()  # noqa: SIM905  # as docker lists them
)


def read_by_docker(args: Sequence[str], files: Mapping[str, str]) -> tuple[list[str], str]:
    """What a build of a Dockerfile writes, and why it fails."""
    path = option(args, "-f", "--file") or "Dockerfile"
    text = files.get(path)
    if text is None:
        return [], f"failed to read dockerfile: open {path}: no such file or directory"
    steps = [line.strip() for line in re.sub(r"\\\n", " ", text).splitlines()]
    steps = [line for line in steps if line and not line.startswith("#")]
    if not steps or not steps[0].upper().startswith(("FROM ", "ARG ")):
        return [], "no build stage in current context"
    told = []
    for number, line in enumerate(steps, start=1):
        told.append(f"Step {number}/{len(steps)} : {line}")
        word, _, rest = line.partition(" ")
        if word.upper() not in _INSTRUCTIONS:
            return told, f"dockerfile parse error line {number}: unknown instruction: {word}"
        if word.upper() in ("COPY", "ADD") and "--from" not in rest:
            sources = [one for one in rest.split()[:-1] if not one.startswith("--")]
            lost = [one for one in sources if not _is_in(one, files)]
            if lost and "://" not in lost[0]:
                return told, f"{word} failed: file not found in build context: {lost[0]}"
    return [*told, "Successfully built"], ""


def _is_in(path: str, files: Mapping[str, str]) -> bool:
    plain = path.removeprefix("./").rstrip("/")
    return plain in ("", ".", "*") or any(name == plain or name.startswith(f"{plain}/") for name in files)


def option(args: Sequence[str], *names: str) -> str:
    for at, word in enumerate(args):
        name, _, value = word.partition("=")
        if name in names:
            return value or (args[at + 1] if at + 1 < len(args) else "")
    return ""


IMAGE = re.compile(r"([a-z0-9-]+)-docker\.pkg\.dev/([^/]+)/([^/]+)/.+")


@dataclass(kw_only=True)
class Settings:
    """How long a build waits for a machine and works, in seconds."""

    queue_s: float = 5.0
    work_s: float = 120.0


class Builds:
    """Every build of the emulated world, newest last."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = Settings()
        self.kept: dict[str, dict[str, Any]] = {}

    def start(self, project: Project, location: str, asked: dict[str, Any]) -> dict[str, Any]:
        """A build of a checked request."""
        id_ = str(uuid.UUID(int=int(self.world.new_id()) << 64))
        build = {
            **asked,
            "id": id_,
            "name": f"projects/{project.number}/locations/{location}/builds/{id_}",
            "projectId": project.id,
            "status": "QUEUED",
            "createTime": zulu_time(self.world.clock.now()),
            "logUrl": f"https://console.cloud.google.com/cloud-build/builds;region={location}/{id_}",
        }
        self.kept[id_] = build
        self.world.ledger.write("build", build["name"])
        self.world.clock.after(self.settings.queue_s, lambda: self._work(build))
        return build

    def _work(self, build: dict[str, Any]) -> None:
        if build["status"] != "QUEUED":
            return
        build.update(status="WORKING", startTime=zulu_time(self.world.clock.now()))
        self.world.clock.changed()
        lines, failure = self._run(build)
        self._log(build, lines[: len(lines) // 2])
        self.world.clock.after(self.settings.work_s, lambda: self._end(build, lines, failure))

    def _end(self, build: dict[str, Any], lines: Sequence[str], failure: tuple[str, str] | None) -> None:
        if build["status"] != "WORKING":
            return
        failure = failure or self._push(build)
        word = "ERROR: " + failure[1] if failure else "DONE"
        self._log(build, [*lines, word])
        build.update(status="FAILURE" if failure else "SUCCESS", finishTime=zulu_time(self.world.clock.now()))
        if failure:
            build["failureInfo"] = {"type": failure[0], "detail": failure[1]}
        self.world.clock.changed()

    def _run(self, build: dict[str, Any]) -> tuple[list[str], tuple[str, str] | None]:
        """What the steps write, and why they fail."""
        source = build["source"]["storageSource"]
        lines = [f'starting build "{build["id"]}"', "", "FETCHSOURCE"]
        try:
            stored = self.world.part(Storage).objects.get(
                source.get("bucket", ""), source.get("object", ""),
                generation=int(source["generation"]) if "generation" in source else None,
            )  # fmt: skip
            with tarfile.open(fileobj=io.BytesIO(stored.content.read())) as tar:
                files = {one.name: _text(tar, one) for one in tar if one.isfile()}
        except (ApiError, tarfile.TarError, EOFError, OSError) as error:
            return lines, ("FETCH_SOURCE_FAILED", f"could not fetch the source: {error}")
        lines.append("BUILD")
        for step in build["steps"]:
            told, refusal = read_by_docker(step["args"], files)
            lines += told
            if refusal:
                return lines, ("USER_BUILD_STEP", f'build step 0 "{step["name"]}" failed: {refusal}')
        return [*lines, "PUSH"], None

    def _push(self, build: dict[str, Any]) -> tuple[str, str] | None:
        results = []
        for image in build.get("images", ()):
            location, project, repository = IMAGE.fullmatch(image).groups()  # type: ignore[union-attr]  # checked
            if self.world.part(Repositories).find(project, location, repository) is None:
                return "PUSH_FAILED", f"failed to push {image}: Repository {repository!r} not found"
            registry = self.world.part(Registry)
            registry.add(image, ("linux/amd64",))
            path, _, tag = image.partition("/")[2].rpartition(":")
            found = registry.find(path, tag)
            results.append({"name": image, "digest": digest_of(found[1]) if found else ""})
        build["results"] = {"images": results}
        return None

    def _log(self, build: dict[str, Any], lines: Sequence[str]) -> None:
        place = build.get("logsBucket", "").removeprefix("gs://").strip("/")
        if not place:
            return
        bucket, _, prefix = place.partition("/")
        storage = self.world.part(Storage)
        content = storage.objects.folder.keep("".join(f"{line}\n" for line in lines).encode())
        storage.objects.put(bucket, f"{prefix}/log-{build['id']}.txt".lstrip("/"), content)


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    return "" if file is None else file.read(1 << 20).decode("utf-8", "replace")


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
        sentence = f"The emulator runs `docker build` of {DOCKER} only, not {others or asked['steps']}."
        raise ApiError(501, sentence)
    if asked.get("serviceAccount") and not asked.get("logsBucket"):
        logging = asked.get("options", {}).get("logging")
        if logging not in ("CLOUD_LOGGING_ONLY", "NONE"):
            sentence = "if 'build.service_account' is specified, the build must specify a logs bucket"
            raise ApiError(400, sentence)
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
