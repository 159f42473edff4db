"""The one registry of Compute Engine's handlers."""

from __future__ import annotations

from gputrain_emulator.errors import Style
from gputrain_emulator.routes import Service

COMPUTE = Service("compute", Style.COMPUTE, is_tabled=True)
