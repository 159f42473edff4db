"""Experiments of this machine."""

import pytest

from gputrain import Local, Trainer


@pytest.fixture
def trainer():
    return Trainer(Local(gpus=0))
