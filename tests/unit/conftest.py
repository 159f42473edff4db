"""An emulated cloud for tests whose point is not the socket, and scripts."""

import pytest

from tests.support.clouds import emulated


@pytest.fixture
def cloud():
    """A cloud of this process with the bucket ``my-bucket``."""
    with emulated() as running:
        yield running


@pytest.fixture
def script(tmp_path):
    """Writes a script into a folder of its own and gives its path."""

    def write(text="print('hello')\n", name="train.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def code(script):
    """The path of a script."""
    return script()
