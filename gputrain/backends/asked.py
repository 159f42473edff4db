"""What a spec asks of the node agents, in their own variables: the same on every platform."""

from __future__ import annotations

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
