"""Container images of a project's own: what goes in, where they lie, and who builds them."""

from gputrain.images.builder import BuiltImage, ImageBuilder, OnLine
from gputrain.images.repository import ImageRepository

__all__ = ["BuiltImage", "ImageRepository", "OnLine", "ImageBuilder"]
