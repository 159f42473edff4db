"""What of a request only the cloud knows: the one step between what is rendered and what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gputrain.backends.compute import networks
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.gcp import MissingError
from gputrain.gcp.registry import pinned
from gputrain.staging.parcels import Parcels


@attrs.frozen(kw_only=True)
class Completion:
    """Asks anew each time: an image's tag or family may have moved since the last submit."""

    calls: Calls
    parcels: Parcels
    settings: ComputeSettings

    def of(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body with the code's generation, which is sent first where the bucket lacks it, and what the
        images are today.

        Raises:
            NoWayOutError: the VMs would reach nothing.
            RequestError, AccessError: an image is not there, or the code cannot be sent.
        """
        networks.check_ways_out(self.calls.access, self.settings, body)
        order = body["job"]["order"]
        generation = self.parcels.send(self.settings.bucket, order["object"])
        disk = body["properties"]["disks"][0]
        image = self._boot_image(disk["initializeParams"]["sourceImage"])
        init = {**disk["initializeParams"], "sourceImage": image}
        job = {**body["job"], "order": {**order, "generation": generation}}
        job["image"] = job["image"] and pinned(self.calls.access, job["image"])
        properties = {**body["properties"], "disks": [{**disk, "initializeParams": init}]}
        return {**body, "job": job, "properties": properties}

    def _boot_image(self, path: str) -> str:
        try:
            found = self.calls.official.image(path)
        except MissingError as error:
            error.fix = "name another with image_family='PROJECT/FAMILY' or boot_image="
            raise
        return "projects/" + str(found["selfLink"]).partition("/projects/")[2]
