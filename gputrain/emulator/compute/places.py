"""zones."""

from __future__ import annotations

from typing import Any

from gputrain.emulator.call import Call
from gputrain.emulator.compute.service import COMPUTE


@COMPUTE.method("compute.zones.get", pool="compute.reads")
def get_zone(call: Call) -> dict[str, Any]:
    return {"kind": "compute#zone", "name": call.params["zone"], "status": "UP"}
