"""The code of jobs on its way into the project's bucket, for every platform that fetches it from there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gputrain.entrypoint import zipapp
from gputrain.errors import RequestError
from gputrain.gcp import Access, Objects
from gputrain.gcp.buckets import BucketPrefix, check_owner
from gputrain.gcp.uploads import Progress, upload
from gputrain.staging import archive
from gputrain.staging.archive import Archive
from gputrain.staging.source import CodeSource


def pack(source: CodeSource) -> Archive:
    """The code as it travels, with the node agent beside it; nothing is written.

    Raises:
        SpecError: something in its folder cannot travel.
    """
    made = {name: text.encode() for name, text in source.made_files.items()}
    return archive.pack(source.folder, made=made, companions=_companions())


def send(
    access: Access, bucket: BucketPrefix, location: str, content: bytes, *, progress: Progress | None = None
) -> None:
    """See that code lies where jobs will fetch it; it is sent where the bucket lacks it.

    Args:
        access: whose bucket.
        bucket: the bucket, which has been checked where there is content.
        location: the ``gs://`` object, named by its content.
        content: the packed code; empty for code that another process has sent.
        progress: called with the bytes sent and the total.

    Raises:
        RequestError: there is none to send, and the bucket has none of that name.
    """
    name = location.removeprefix(f"gs://{bucket.name}/")
    if content:
        upload(access, bucket, name, content, progress=progress)
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
