"""The state of Cloud Storage in one emulated world: its objects, its uploads, and the folder they lie in."""

from __future__ import annotations

from pathlib import Path

from gputrain_emulator.folders import OwnFolder
from gputrain_emulator.storage.buckets import Bucket
from gputrain_emulator.storage.content import Folder
from gputrain_emulator.storage.objects import Objects
from gputrain_emulator.storage.uploads import Sessions
from gputrain_emulator.world import World


class Storage:
    """What handlers and tests share; the folder goes away with the emulator."""

    def __init__(self, world: World) -> None:
        self._kept: OwnFolder | None = None
        self.world = world
        self.objects = Objects(Folder(self._place), world.clock.now)
        self.buckets = self.objects.buckets
        self.uploads = Sessions()

    def add_bucket(self, name: str, *, location: str = "us-central1", project: str = "") -> Bucket:
        """A bucket of a project, the first one unless another is named."""
        owner = self.world.find_project(project) if project else next(iter(self.world.projects.values()))
        if owner is None:
            raise LookupError(f"no such project: {project}")
        return self.buckets.add(name, project=owner.id, project_number=owner.number, location=location)

    def location(self, bucket: str) -> str | None:
        """Where a bucket is, None where there is none of that name."""
        return next((found.location for found in self.buckets.all() if found.name == bucket), None)

    def break_next_chunk(self, kept_bytes: int) -> None:
        """Let the next chunk of a resumable upload end in a 503 after `kept_bytes` of it."""
        self.uploads.break_next_chunk(kept_bytes)

    def close(self) -> None:
        """Remove the folder; safe to call twice."""
        if self._kept is not None:
            self._kept.close()

    def _place(self) -> Path:
        self._kept = OwnFolder()
        return self._kept.path
