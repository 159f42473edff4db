"""An emulated cloud for tests whose point is not the socket, and scripts."""

import pytest

from tests.support.clouds import emulated


@pytest.fixture
def cloud():
    """A cloud of this process with the bucket ``my-bucket``."""
    with emulated() as running:
        yield running


@pytest.fixture
def code(script):
    """The path of a script."""
    return script()
