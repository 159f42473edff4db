"""What a spec asks of what runs there, the same on every platform: the node agents, loader and prelude."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.backends.base import Bundle
from gputrain.entrypoint import contract
from gputrain.spec import TrainingSpec


def of_agents(spec: TrainingSpec) -> dict[str, str]:
    """The variables; what is not asked for is left out."""
    asked = {contract.LAUNCHER: spec.launcher.value, contract.LOG_FORMAT: "json"}
    if spec.keep_outputs:
        asked[contract.KEEP_OUTPUTS] = "1"
    if spec.hang_timeout is not None:
        asked[contract.HANG_TIMEOUT] = f"{spec.hang_timeout.total_seconds():g}"
    return asked


def of_code(spec: TrainingSpec, bundle: Bundle, bucket: str, addresses: Mapping[str, str]) -> dict[str, Any]:
    """What the loader and the prelude are told.

    Args:
        bucket: the name of the one that the code lies in.
        addresses: of Cloud Storage and Secret Manager.
    """
    return {
        "storage": addresses["storage"],
        "secretmanager": addresses["secretmanager"],
        "bucket": bucket,
        "object": bundle.location.removeprefix(f"gs://{bucket}/"),
        "sha256": bundle.sha256,
        "argv": list(bundle.argv),
        "requirements": list(spec.requirements),
        "secrets": dict(spec.secrets),
    }
