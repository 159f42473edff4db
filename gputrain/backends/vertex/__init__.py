"""Vertex AI custom jobs: one spec, exactly one job."""

from gputrain.backends.vertex.backend import VertexAI
from gputrain.backends.vertex.gcloud import GcloudJob, Imported, from_gcloud
from gputrain.backends.vertex.settings import ReductionServer, Transport

__all__ = ["GcloudJob", "Imported", "ReductionServer", "Transport", "VertexAI", "from_gcloud"]
