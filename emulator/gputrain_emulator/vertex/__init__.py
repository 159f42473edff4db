"""Vertex AI v1 custom jobs: what is offered, what a request must satisfy, how a job lives."""

from __future__ import annotations

from gputrain_emulator.vertex.service import SERVICE
from gputrain_emulator.vertex.state import Job, Vertex
from gputrain_emulator.vertex.states import Ending, Fate, Settings, State

__all__ = ["SERVICES", "Ending", "Fate", "Job", "Settings", "State", "Vertex"]

SERVICES = (SERVICE,)
