"""Both clouds of the emulator through the public face: `Trainer`, `Job` and nothing below them."""

from datetime import datetime, timezone

import pytest

from gputrain import Trainer
from gputrain_emulator.compute.images import add_image
from tests import present
from tests.support.clouds import REGION, emulated, reserve, settings


@pytest.fixture
def cloud():
    with emulated(is_judged=True) as running:
        add_image(running.compute, "my-project", "mine-1", "mine", 20)
        reserve(running, "big")
        yield running


@pytest.fixture
def trainer(cloud):
    """Makes a trainer with one cloud, whose waits move the emulator's clock."""

    def build(kind, **own):
        backend = present.backend(kind)(**settings(cloud, **{"regions": [REGION], **own}))
        now = lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc)  # noqa: E731
        return Trainer(backend, now=now, sleep=cloud.clock.advance)

    return build


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n")
    return str(path)
