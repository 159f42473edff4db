"""Vertex AI custom jobs: one spec, exactly one job."""

from gputrain.backends.vertex.backend import VertexAI
from gputrain.backends.vertex.settings import NfsMount, ReductionServer, Transport

__all__ = ["NfsMount", "ReductionServer", "Transport", "VertexAI"]
