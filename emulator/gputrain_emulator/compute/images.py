"""Public images and families, and the ones a project made itself."""

from __future__ import annotations

import re
import zlib
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.compute import filters, refusals
from gputrain_emulator.compute.links import in_project, link
from gputrain_emulator.compute.state import COMPUTE, Compute


def family_image(compute: Compute, project: str, family: str) -> dict[str, Any]:
    """The newest image of a family; raises ApiError 404."""
    own = compute.resources["images"].get(f"projects/{project}/global/images/family/{family}")
    if own is not None:
        return own
    known = facts.publishers().get(project)
    if known is None or not re.fullmatch(known["families"], family):
        raise refusals.not_found(f"projects/{project}/global/images/family/{family}")
    return _document(project, f"{family}-v20261101", family, known["size_gb"])


def image(compute: Compute, url: str, project: str) -> dict[str, Any]:
    """The image that a disk's ``sourceImage`` means; raises ApiError 404."""
    family = "/global/images/family/"  # which gcloud names as a view
    path = re.sub(r"/zones/[^/]+/imageFamilyViews/", family, in_project(url, project))
    match = re.fullmatch(r"projects/([^/]+)/global/images/(family/)?([^/]+)", path)
    if match is None:
        raise refusals.invalid("resource.disks[0].initializeParams.sourceImage", url, "The URL is malformed.")
    owner, is_family, name = match.groups()
    if is_family:
        return family_image(compute, owner, name)
    return named_image(compute, owner, name)


def named_image(compute: Compute, project: str, name: str) -> dict[str, Any]:
    path = f"projects/{project}/global/images/{name}"
    if path in compute.resources["images"]:
        return compute.resources["images"][path]
    known = facts.publishers().get(project)
    match = known and re.fullmatch(rf"({known['families']})-v[0-9]{{8}}", name)
    if not known or not match:
        raise refusals.not_found(path)
    return _document(project, name, match.group(1), known["size_gb"])


def add_image(compute: Compute, project: str, name: str, family: str, size_gb: int) -> None:
    """An image of the project's own."""
    document = _document(project, name, family, str(size_gb))
    compute.resources["images"][f"projects/{project}/global/images/{name}"] = document
    compute.resources["images"][f"projects/{project}/global/images/family/{family}"] = document


def _document(project: str, name: str, family: str, size_gb: str) -> dict[str, Any]:
    path = f"projects/{project}/global/images/{name}"
    return {
        "kind": "compute#image",
        "id": str(10**18 + zlib.crc32(path.encode())),
        "name": name,
        "family": family,
        "status": "READY",
        "diskSizeGb": size_gb,
        "architecture": "ARM64" if "arm64" in name else "X86_64",
        "creationTimestamp": "2026-11-01T00:00:00.000-08:00",
        "selfLink": link(path),
    }


def _owner(call: Call, permission: str) -> str:
    """The project whose images are asked for; Google's own are for everybody."""
    owner = call.params["project"]
    if owner not in facts.publishers() and not call.caller.may(permission):
        raise refusals.permission(permission, f"projects/{owner}/global/images")
    return owner


@COMPUTE.method("compute.images.getFromFamily", permission="-", pool="compute.reads", needs_api=False)
def get_from_family(call: Call) -> dict[str, Any]:
    """The newest image of a family."""
    owner = _owner(call, "compute.images.getFromFamily")
    return family_image(call.world.part(Compute), owner, call.params["family"])


@COMPUTE.method("compute.images.get", permission="-", pool="compute.reads", needs_api=False)
def get(call: Call) -> dict[str, Any]:
    """One image by name."""
    return named_image(call.world.part(Compute), _owner(call, "compute.images.get"), call.params["image"])


@COMPUTE.method("compute.images.list", permission="-", pool="compute.reads", needs_api=False)
def list_images(call: Call) -> dict[str, Any]:
    """The images a project made itself; of a publisher, some that it has."""
    owner = _owner(call, "compute.images.list")
    prefix = f"projects/{owner}/global/images/"
    compute = call.world.part(Compute)
    known = facts.publishers().get(owner, {"listed": ""})
    items = [family_image(compute, owner, family) for family in known["listed"].split()]
    items += [
        d for n, d in compute.resources["images"].items() if n.startswith(prefix) and "/family/" not in n
    ]
    return filters.listing(call, "image", prefix.rstrip("/"), items)
