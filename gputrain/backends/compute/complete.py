"""What of a request only the cloud knows: the one step between what is rendered and what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.backends.compute import networks, render
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.gcp import MissingError
from gputrain.gcp.registry import pinned


def completed(calls: Calls, settings: ComputeSettings, draft: Mapping[str, Any]) -> dict[str, Any]:
    """The call that makes the VMs, with what the images are today.

    Each is asked for anew: an image's tag or family may have moved since the last submit.

    Raises:
        NoWayOutError: the VMs would reach nothing.
        RequestError, AccessError: an image is not there.
    """
    networks.check_ways_out(calls.access, settings, draft)
    disk = draft["properties"]["disks"][0]
    image = _boot_image(calls, disk["initializeParams"]["sourceImage"])
    disks = [{**disk, "initializeParams": {**disk["initializeParams"], "sourceImage": image}}]
    container = draft["job"]["image"]
    job = {**draft["job"], "image": container and pinned(calls.access, container)}
    return render.call({**draft, "job": job, "properties": {**draft["properties"], "disks": disks}})


def _boot_image(calls: Calls, path: str) -> str:
    try:
        found = calls.official.image(path)
    except MissingError as error:
        error.fix = "name another with image_family='PROJECT/FAMILY' or boot_image="
        raise
    return "projects/" + str(found["selfLink"]).partition("/projects/")[2]
