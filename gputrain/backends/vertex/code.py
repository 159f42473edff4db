"""The code of jobs on its way to Vertex AI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gputrain.backends.base import Bundle
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.errors import Fault, SpecError
from gputrain.gcp import Access
from gputrain.gcp.registry import pinned
from gputrain.spec import TrainingSpec
from gputrain.staging.bucket import BucketPrefix, Progress
from gputrain.staging.parcels import Parcels


class Codes:
    """Packs code, and sends it where the bucket lacks it."""

    def __init__(self, access: Access, settings: VertexSettings, progress: Progress | None) -> None:
        self._access = access
        self._settings = settings
        self._parcels = Parcels(access, progress)

    def pack(self, spec: TrainingSpec) -> Bundle:
        """The bundle that would be sent; nothing is written.

        Raises:
            SpecError: no bucket was named, or something in the folder cannot travel.
            RequestError, PermissionDeniedError: the bucket is not there, not ours, or elsewhere.
        """
        parcel = self._parcels.pack(spec, self._bucket(), self._settings.home)
        return Bundle(location=parcel.location, argv=parcel.argv, sha256=parcel.sha256)

    def sent(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The job with the generation of its code, which is sent first where the bucket lacks it, and with
        its image by digest."""
        body: dict[str, Any] = json.loads(json.dumps(job))
        trainers = [
            p["containerSpec"] for p in body["jobSpec"]["workerPoolSpecs"] if "args" in p["containerSpec"]
        ]
        order = json.loads(trainers[0]["args"][0])
        order["generation"] = self._parcels.send(self._bucket(), order["object"])
        for container in trainers:
            container["imageUri"] = pinned(self._access, container["imageUri"])
            container["args"] = [json.dumps(order, sort_keys=True)]
        return body

    def _bucket(self) -> BucketPrefix:
        if self._settings.bucket is None:
            fix = "VertexAI(..., bucket='gs://my-bucket')"
            fault = Fault(field="bucket", value="None", allowed="a bucket of your project", fix=fix)
            raise SpecError(f"code travels through a bucket, and none is named: {fault}", faults=(fault,))
        return self._settings.bucket
