"""Instance templates: properties checked as an instance's are, but for what only a zone can tell."""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.compute import checks, documents, images, refusals
from gputrain_emulator.compute.links import fingerprint
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.state import Compute, Operation
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]
AT = "resource.properties"


def _group_of(call: Call, template: Json) -> str:
    """A group that makes its VMs by the template; such a template cannot be deleted."""
    groups = call.world.part(Compute).resources["instanceGroupManagers"].values()
    users = (str(one["selfLink"]) for one in groups if one["instanceTemplate"] == template["selfLink"])
    return next(users, "")


documents.register("instanceTemplates", "instanceTemplate", "instance_template", user_of=_group_of)


@mutation("compute.instanceTemplates.insert", permission="compute.instanceTemplates.create")
def insert_template(call: Call) -> Operation:
    """A template; whether a zone sells its machine shows when it is used."""
    if call.body.get("sourceInstance"):
        raise ApiError.unimplemented("compute.instanceTemplates.insert with a sourceInstance")
    properties = call.body.get("properties", {})
    machine = properties.get("machineType", "")
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,62}", machine):
        sentence = "Must be the name of a machine type, as a template is of no zone."
        raise refusals.invalid(f"{AT}.machineType", machine, sentence)
    if not properties.get("networkInterfaces"):
        raise refusals.invalid(f"{AT}.networkInterfaces", "", "At least one network interface is required.")
    checks.labels(properties.get("labels", {}), f"{AT}.labels")
    checks.metadata(properties.get("metadata", {}), f"{AT}.metadata")
    checks.attachments(properties, AT)
    wanted = properties.get("scheduling", {})
    model = checks.model_of(wanted)
    if "maxRunDuration" in wanted or model != "FLEX_START":  # a resize request brings its own
        checks.run_limits(wanted, model, f"{AT}.scheduling")
    for accelerator in properties.get("guestAccelerators", []):
        if not accelerator.get("acceleratorType") or int(accelerator.get("acceleratorCount", 0)) < 1:
            raise refusals.invalid(
                f"{AT}.guestAccelerators[0]", "", "Needs a type and a count of at least 1."
            )
    for disk in properties["disks"]:
        image = disk.get("initializeParams", {}).get("sourceImage", "")
        if image:
            images.image(call.world.part(Compute), image, call.owner.id)
        elif disk.get("boot") and not disk.get("source"):
            field = f"{AT}.disks[0].initializeParams.sourceImage"
            raise refusals.invalid(field, "", "A boot disk must have a source image.")
    return documents.create(call, "instanceTemplates", "instanceTemplate", properties=_completed(properties))


def _completed(properties: Json) -> Json:
    """The properties with what Google writes into them."""
    known = facts.machines().get(properties["machineType"])
    gpus = properties.get("guestAccelerators") or (known and known.gpus)
    metadata = properties.get("metadata", {})
    return {
        **properties,
        "disks": [checks.completed(disk, index) for index, disk in enumerate(properties["disks"])],
        "metadata": {
            "kind": "compute#metadata",
            **metadata,
            "fingerprint": fingerprint(metadata.get("items", [])),
        },
        "networkInterfaces": [
            {"kind": "compute#networkInterface", "name": f"nic{index}", **nic}
            for index, nic in enumerate(properties["networkInterfaces"])
        ],
        "scheduling": checks.completed_scheduling(properties.get("scheduling", {}), bool(gpus)),
    }
