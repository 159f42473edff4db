"""What a user asks for, as one frozen value."""

from gputrain.secrets import looks_secret, redact
from gputrain.spec.durations import Moment, format_duration, parse_duration
from gputrain.spec.gpu import GpuRequest, parse_gpu
from gputrain.spec.image import Image
from gputrain.spec.training import TrainingSpec
from gputrain.spec.typed import EntryKind, Launcher

__all__ = [
    "EntryKind",
    "GpuRequest",
    "Image",
    "Launcher",
    "Moment",
    "TrainingSpec",
    "format_duration",
    "looks_secret",
    "parse_duration",
    "parse_gpu",
    "redact",
]
