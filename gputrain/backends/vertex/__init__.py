"""Vertex AI custom jobs: one spec, exactly one job."""

from gputrain.backends.vertex.backend import VertexAI
from gputrain.backends.vertex.settings import NfsMount, ReductionServer

__all__ = ["NfsMount", "ReductionServer", "VertexAI"]
