"""The document that every VM of a job reads from its metadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.backends.asked import of_agents, of_code
from gputrain.backends.base import Bundle
from gputrain.backends.compute.names import JobObjects
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.backends.google import shape_of
from gputrain.catalog import Service
from gputrain.entrypoint import contract
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec

SCHEMA = 1

JOIN_S = 600
"""How long nodes may take to meet beyond the wait for the driver: images come, requirements are installed.

A node that died on the way holds the others no longer than that; the agent's own patience is half an hour.
"""

BOOT_S = 300
"""How long a node waits for the first word of another: all VMs of a gang run before any of them counts."""


def job(
    spec: TrainingSpec,
    candidate: Candidate,
    job_id: str,
    bundle: Bundle,
    settings: ComputeSettings,
    addresses: Mapping[str, str],
) -> dict[str, Any]:
    """The document that the guest reads. Nothing in it is a secret: whoever may see the VM may read it."""
    shape = shape_of(candidate, Service.COMPUTE)
    bucket = settings.bucket
    objects = JobObjects(bucket=bucket, job_id=job_id)
    return {
        "schema": SCHEMA,
        "job_id": job_id,
        "zone": candidate.place,
        "project": settings.project,
        "gpus": shape.api_gpu_count,
        "driver_wait_s": settings.driver_wait_s,
        "boot_wait_s": BOOT_S,
        "image": spec.image_name,
        "python": settings.python,
        "os_login": settings.os_login,
        "storage": addresses["storage"],
        "compute": addresses["compute"],
        "bucket": bucket.name,
        "folder": objects.attempts,
        "cancel": objects.cancel,
        "checkpoints": spec.checkpoint_dir or bucket.uri("jobs", job_id, "checkpoints"),
        "output": spec.output_dir or bucket.uri("jobs", job_id, "output"),
        "order": of_code(spec, bundle, bucket.name, addresses),
        "env": {
            contract.JOIN_TIMEOUT: str(settings.driver_wait_s + JOIN_S),
            **spec.env,
            contract.JOB_ID: job_id,
            contract.NUM_NODES: str(candidate.num_nodes),
            contract.NPROC_PER_NODE: str(candidate.nproc_per_node),
            **of_agents(spec),
        },
    }
