"""What may wait in Google's flex-start queue, as requests: one VM, or a gang. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gputrain.backends.compute.names import note_of, queue_name
from gputrain.gcp import LABEL_GANG, LABEL_HOME


def alone(properties: Mapping[str, Any], name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """``Instance`` of an insert: the same properties, with URLs where a gang takes bare names."""
    zone = body["zone"]
    scope = f"zones/{zone}"
    instance = dict(properties, name=name, machineType=f"{scope}/machineTypes/{properties['machineType']}")
    disk = dict(properties["disks"][0])
    init = dict(disk["initializeParams"])
    init["diskType"] = f"{scope}/diskTypes/{init['diskType']}"
    instance["disks"] = [{**disk, "initializeParams": init}]
    if "guestAccelerators" in properties:
        gpus = dict(properties["guestAccelerators"][0])
        gpus["acceleratorType"] = f"{scope}/acceleratorTypes/{gpus['acceleratorType']}"
        instance["guestAccelerators"] = [gpus]
    instance["params"] = {"requestValidForDuration": {"seconds": str(body["queue_s"])}}
    return instance


def gang(properties: Mapping[str, Any], names: Sequence[str], draft: Mapping[str, Any]) -> dict[str, Any]:
    """The template, the empty group and the request for all of its VMs by their names."""
    labels, zone, job_id = properties["labels"], draft["zone"], draft["job"]["job_id"]
    name = queue_name(job_id, labels[LABEL_GANG])
    note = note_of(job=job_id, home=labels[LABEL_HOME], zone=zone)
    return {
        "template": {"name": name, "description": note, "properties": dict(properties)},
        "group": {
            "name": name,
            "description": note,
            "baseInstanceName": name,
            "versions": [{"instanceTemplate": f"global/instanceTemplates/{name}"}],
            "targetSize": 0,
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},  # a VM that left stays away
        },
        "resource": {
            "name": name,
            "description": note,
            "instances": [{"name": one} for one in names],
            "requestedRunDuration": properties["scheduling"]["maxRunDuration"],
        },
    }
