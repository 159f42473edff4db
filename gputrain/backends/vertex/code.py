"""The code of jobs on its way into the project's bucket."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gputrain import staging
from gputrain.backends.base import Bundle
from gputrain.backends.vertex import render
from gputrain.backends.vertex.registry import pinned
from gputrain.backends.vertex.settings import Settings
from gputrain.entrypoint import zipapp
from gputrain.errors import Fault, PermissionDeniedError, SpecError
from gputrain.gcp import Access
from gputrain.spec import TrainingSpec
from gputrain.staging.archive import Archive, pack
from gputrain.staging.bucket import Bucket, Progress, check_bucket, read_object
from gputrain.staging.upload import upload


class Code:
    """Packs code, sends it where the bucket lacks it, and reads the locks that jobs take."""

    def __init__(self, access: Access, settings: Settings, progress: Progress | None) -> None:
        self._access = access
        self._settings = settings
        self._progress = progress
        self._lock = threading.Lock()
        self._archives: dict[str, Archive] = {}

    def pack(self, spec: TrainingSpec) -> Bundle:
        """The bundle that would be sent; nothing is written.

        Raises:
            SpecError: no bucket was named, or something in the folder cannot travel.
            RequestError, PermissionDeniedError: the bucket is not there, not ours, or elsewhere.
        """
        source = staging.resolve(spec, installed=False)
        bucket = self._bucket()
        check_bucket(self._access, bucket, self._settings.home)
        archive = pack(source.folder, made={**_encoded(source.made_files), **_companions()})
        with self._lock:
            self._archives[archive.name] = archive
        return Bundle(location=bucket.uri("code", archive.name), argv=source.argv, sha256=archive.sha256)

    def sent(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The job with the generation of its code, which is sent first where the bucket lacks it, and with
        its image by digest."""
        bucket = self._bucket()
        body: dict[str, Any] = json.loads(json.dumps(job))
        trainers = [
            p["containerSpec"] for p in body["jobSpec"]["workerPoolSpecs"] if "args" in p["containerSpec"]
        ]
        order = json.loads(trainers[0]["args"][0])
        order["generation"] = self._send(bucket, order["object"])
        for container in trainers:
            container["imageUri"] = pinned(self._access, container["imageUri"])
            container["args"] = [json.dumps(order, sort_keys=True)]
        return body

    def holder(self, job_id: str) -> str:
        """The number of the job that took the lock of an id; empty before one did, or if we may not look."""
        bucket = self._settings.bucket
        if bucket is None:
            return ""
        try:
            return (read_object(self._access, bucket, render.lock_of(bucket, job_id)) or b"").decode()
        except PermissionDeniedError:  # somebody who may watch jobs, but not read the bucket
            return ""

    def _send(self, bucket: Bucket, name: str) -> int:
        data = self._archives[name.rpartition("/")[2]].data
        progress = {} if self._progress is None else {"progress": self._progress}
        return upload(self._access, bucket, name, data, **progress)

    def _bucket(self) -> Bucket:
        if self._settings.bucket is None:
            fix = "VertexAI(..., bucket='gs://my-bucket')"
            fault = Fault(field="bucket", value="None", allowed="a bucket of your project", fix=fix)
            raise SpecError(f"code travels through a bucket, and none is named: {fault}", faults=(fault,))
        return self._settings.bucket


def _encoded(made: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in made.items()}


@cache
def _companions() -> Mapping[str, bytes]:
    """What travels with the user's files: the prelude and the node agent."""
    prelude = (files("gputrain.staging") / "prelude.py").read_bytes()
    return {".gputrain/prelude.py": prelude, ".gputrain/agent.pyz": zipapp.build()}
