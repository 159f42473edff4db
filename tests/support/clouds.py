"""Emulated clouds for tests whose point is not the socket."""

import contextlib

import gputrain_emulator
from emulator.tests import discovery
from tests.support.in_process import in_process

REGION = "us-central1"


@contextlib.contextmanager
def emulated(*, is_judged=False, **settings):
    """A cloud of this process with a bucket; the test fails at its end if the emulator did.

    If judged, it also fails if any exchange departs from Google's published documents.
    """
    with gputrain_emulator.start(**settings) as cloud, in_process(cloud):
        cloud.add_bucket("my-bucket", location=REGION)
        if is_judged:
            cloud.dispatcher.requests.keep_everything()
        yield cloud
        assert not cloud.dispatcher.failures
        assert not is_judged or discovery.judge(cloud) == []
