"""Container images of a project's own: what goes in, where they lie, and who builds them."""

from gputrain.images.home import ImageHome
from gputrain.images.works import BuiltImage, Told, Works

__all__ = ["BuiltImage", "ImageHome", "Told", "Works"]
