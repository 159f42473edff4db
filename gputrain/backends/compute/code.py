"""The code of jobs on its way into the project's bucket."""

from __future__ import annotations

import threading
from importlib.resources import files

from gputrain import staging
from gputrain.backends.base import Bundle
from gputrain.entrypoint import zipapp
from gputrain.gcp import Access
from gputrain.spec import TrainingSpec
from gputrain.staging.archive import Archive, pack
from gputrain.staging.bucket import Bucket, Progress, check_bucket
from gputrain.staging.upload import upload


class Code:
    """Packs code, and sends it where the bucket lacks it."""

    def __init__(self, access: Access, bucket: Bucket, home: str, progress: Progress | None) -> None:
        self._access = access
        self._bucket = bucket
        self._home = home
        self._progress = {} if progress is None else {"progress": progress}
        self._lock = threading.Lock()
        self._archives: dict[str, Archive] = {}

    def pack(self, spec: TrainingSpec) -> Bundle:
        """The bundle that would be sent; nothing is written.

        Raises:
            SpecError: something in the folder cannot travel.
            RequestError, PermissionDeniedError: the bucket is not there, not ours, or elsewhere.
        """
        source = staging.resolve(spec, installed=False)
        check_bucket(self._access, self._bucket, self._home)
        made = {name: text.encode() for name, text in source.made_files.items()}
        archive = pack(source.folder, made={**made, **_companions()})
        with self._lock:
            self._archives[archive.sha256] = archive
        location = self._bucket.uri("code", archive.name)
        return Bundle(location=location, argv=source.argv, sha256=archive.sha256)

    def send(self, name: str, sha256: str) -> int:
        """The generation of the object with the code, sent first where the bucket lacks it."""
        data = self._archives[sha256].data
        return upload(self._access, self._bucket, name, data, **self._progress)


def _companions() -> dict[str, bytes]:
    """What travels with the user's files: the prelude and the node agent."""
    prelude = (files("gputrain.staging") / "prelude.py").read_bytes()
    return {".gputrain/prelude.py": prelude, ".gputrain/agent.pyz": zipapp.build()}
