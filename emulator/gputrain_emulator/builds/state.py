"""The builds of the emulated world: each waits, works, and ends by itself."""

from __future__ import annotations

import io
import re
import tarfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gputrain_emulator.builds.dockerfile import option, read_by_docker
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError
from gputrain_emulator.registry import Registry, digest_of
from gputrain_emulator.repositories import Repositories
from gputrain_emulator.storage import Storage
from gputrain_emulator.world import Project, World

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
            built = _tags(build)
            if built and not set(built) & {image}:
                return "PUSHIMAGE_NOT_FOUND", f"no image {image} was built"
            registry = self.world.part(Registry)
            registry.add(image, ("linux/amd64",))
            found = registry.find(*_name_and_tag(image))
            results.append({"name": image, "digest": digest_of(found[1]) if found else ""})
        build["results"] = {"images": results}
        return None

    def _log(self, build: dict[str, Any], lines: Sequence[str]) -> None:
        place = build.get("logsBucket", "").removeprefix("gs://").strip("/")
        if not place:
            return
        bucket, _, prefix = place.partition("/")
        storage = self.world.part(Storage)
        draft = storage.objects.folder.draft()
        draft.append("".join(f"{line}\n" for line in lines).encode())
        name = f"{prefix}/log-{build['id']}.txt" if prefix else f"log-{build['id']}.txt"
        storage.objects.put(bucket, name, draft.finish())


def _tags(build: dict[str, Any]) -> list[str]:
    return [tag for step in build["steps"] if (tag := option(step["args"], "-t", "--tag"))]


def _name_and_tag(image: str) -> tuple[str, str]:
    path, _, tag = image.partition("/")[2].rpartition(":")
    return path, tag


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    return "" if file is None else file.read(1 << 20).decode("utf-8", "replace")
