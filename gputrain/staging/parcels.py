"""The code of jobs on its way into the project's bucket, for every platform that fetches it from there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import attrs

from gputrain.entrypoint import zipapp
from gputrain.errors import RequestError
from gputrain.gcp import Access, Objects
from gputrain.gcp.shared import Kept
from gputrain.spec import TrainingSpec
from gputrain.staging.archive import Archive, pack
from gputrain.staging.bucket import BucketPrefix, Progress, check_bucket, check_owner
from gputrain.staging.source import resolve
from gputrain.staging.upload import upload

MOST_PACKED = 100
"""Archives that wait to be sent at once: more than submit side by side, and a plan packs without sending."""


@attrs.frozen(kw_only=True)
class Parcel:
    """Code that is packed and not yet sent."""

    location: str
    """The ``gs://`` object that will hold it, named by its content."""
    sha256: str
    argv: tuple[str, ...]
    """What follows ``--`` on the entrypoint's command line."""


class Parcels:
    """Packs code together with the node agent, and sends it where the bucket lacks it."""

    def __init__(self, access: Access, progress: Progress | None = None) -> None:
        self._access = access
        self._progress = {} if progress is None else {"progress": progress}
        self._packed: Kept[str, Archive] = Kept(most=MOST_PACKED)
        self._sent: Kept[str, int] = Kept()

    def pack(self, spec: TrainingSpec, bucket: BucketPrefix, home: str) -> Parcel:
        """Check the bucket and pack the code; nothing is written.

        Args:
            spec: whose code.
            bucket: where it will go.
            home: the region that the bucket must lie in.

        Raises:
            SpecError: the entry is not there, or something in its folder cannot travel.
            RequestError, PermissionDeniedError: the bucket is not there, not ours, or elsewhere.
        """
        source = resolve(spec, installed=False)
        check_bucket(self._access, bucket, home)
        made = {name: text.encode() for name, text in source.made_files.items()}
        archive = pack(source.folder, made={**made, **_companions()})
        name = bucket.object_name("code", archive.name)
        self._packed.put(name, archive)
        return Parcel(location=f"gs://{bucket.name}/{name}", sha256=archive.sha256, argv=source.argv)

    def send(self, bucket: BucketPrefix, object_name: str) -> int:
        """The generation of the object with the code, which is sent first where the bucket lacks it.

        What was sent is not kept in memory; packing it again looks again whether it is still there.

        Raises:
            RequestError: it was never packed here, and the bucket has none of that name.
        """
        archive, sent = self._packed.get(object_name), self._sent.get(object_name)
        if archive is None:
            return self._there(bucket, object_name) if sent is None else sent
        generation = upload(self._access, bucket, object_name, archive.data, **self._progress)
        self._packed.drop(object_name)
        return self._sent.put(object_name, generation)

    def _there(self, bucket: BucketPrefix, object_name: str) -> int:
        """The generation of code that another process has sent."""
        check_owner(self._access, bucket)
        found = Objects(self._access, bucket.name).stat(object_name)
        if found is None:
            raise RequestError(
                f"gs://{bucket.name}/{object_name} is not there",
                why="it was sent by another process, or into another bucket",
                fix="submit again, under the same key, where the code is",
                try_elsewhere=True,
            )
        return found.generation


@cache
def _companions() -> Mapping[str, bytes]:
    """What travels with the user's files: the prelude and the node agent, in one."""
    return {".gputrain/agent.pyz": zipapp.build()}
