"""Our own backends, by the name under which tests ask for them."""

import gputrain

CLASSES = {"local": "Local", "vertex": "VertexAI", "compute": "ComputeEngine"}
CLOUDS = ("vertex", "compute")


def backend(name):
    """The class of one backend."""
    return getattr(gputrain, CLASSES[name])
