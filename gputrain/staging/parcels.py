"""The code of jobs on its way into the project's bucket, for every platform that fetches it from there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import attrs

from gputrain.entrypoint import zipapp
from gputrain.errors import RequestError
from gputrain.gcp import Access, Objects
from gputrain.spec import TrainingSpec
from gputrain.staging import archive
from gputrain.staging.source import resolve
from gputrain.staging.upload import BucketPrefix, Progress, check_bucket, check_owner, silence, upload


@attrs.frozen(kw_only=True)
class Parcel:
    """Code that is packed and not yet sent, together with the node agent."""

    location: str
    """The ``gs://`` object that will hold it, named by its content."""
    sha256: str
    argv: tuple[str, ...]
    """What follows ``--`` on the entrypoint's command line."""
    content: bytes = attrs.field(repr=False)


def pack(access: Access, spec: TrainingSpec, bucket: BucketPrefix, home: str) -> Parcel:
    """Check the bucket and pack the code; nothing is written.

    Args:
        access: whose bucket.
        spec: whose code.
        bucket: where it will go.
        home: the region that the bucket must lie in.

    Raises:
        SpecError: the entry is not there, or something in its folder cannot travel.
        RequestError, PermissionDeniedError: the bucket is not there, not ours, or elsewhere.
    """
    source = resolve(spec, installed=False)
    check_bucket(access, bucket, home)
    made = {name: text.encode() for name, text in source.made_files.items()}
    packed = archive.pack(source.folder, made=made, companions=_companions())
    location = bucket.uri("code", packed.name)
    return Parcel(location=location, sha256=packed.sha256, argv=source.argv, content=packed.data)


def send(
    access: Access, bucket: BucketPrefix, location: str, content: bytes, *, progress: Progress | None = None
) -> None:
    """See that code lies where jobs will fetch it; it is sent where the bucket lacks it.

    Args:
        access: whose bucket.
        bucket: the bucket; `pack` has checked it where there is content.
        location: the ``gs://`` object, named by its content.
        content: the packed code; empty for code that another process has sent.
        progress: called with the bytes sent and the total.

    Raises:
        RequestError: there is none to send, and the bucket has none of that name.
    """
    name = location.removeprefix(f"gs://{bucket.name}/")
    if content:
        upload(access, bucket, name, content, progress=progress or silence)
        return
    check_owner(access, bucket)
    if Objects(access, bucket.name).stat(name) is None:
        raise RequestError(
            f"{location} is not there",
            why="it was sent by another process, or into another bucket",
            fix="submit again, under the same key, where the code is",
            try_elsewhere=True,
        )


@cache
def _companions() -> Mapping[str, bytes]:
    """What travels with the user's files: the prelude and the node agent, in one."""
    return {".gputrain/agent.pyz": zipapp.build()}
