"""What a user asks for, as one frozen value."""

from gputrain.spec.duration import Moment, format_duration, parse_duration
from gputrain.spec.gpu import GpuRequest, parse_gpu
from gputrain.spec.image import Image
from gputrain.spec.spec import TrainingSpec
from gputrain.spec.types import EntryKind, Launcher

__all__ = [
    "EntryKind",
    "GpuRequest",
    "Image",
    "Launcher",
    "Moment",
    "TrainingSpec",
    "format_duration",
    "parse_duration",
    "parse_gpu",
]
