"""This machine for the contract suite."""

from contextlib import contextmanager

from gputrain.backends.local import Local
from tests.road import Road


@contextmanager
def world(_name, folder):
    """A folder of jobs of its own."""
    yield Road(Local(gpus=0, root=folder / "jobs"))
