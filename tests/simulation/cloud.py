"""An emulated cloud without a port: requests come to it by a function call."""

import gputrain_emulator.cloud
from gputrain_emulator import facts
from gputrain_emulator.cloud import Cloud
from gputrain_emulator.storage import content

URL = "http://127.0.0.1:1"


class Nowhere:
    """In the place of the emulator's server: it listens to nobody."""

    url = URL

    def __init__(self, *_, **__):
        pass

    def start(self):
        pass

    def stop(self):
        pass


REGIONS = ("us-central1", "us-east4")
"""All that there is: what forty more sell is long, and nobody goes there."""

gputrain_emulator.cloud.Server = Nowhere
content.SMALL_BYTES = 1 << 20  # else each schedule has a folder on the disk, for its code
_zones = tuple(zone for zone in facts.zones() if facts.region_of(zone) in REGIONS)
facts.regions, facts.zones = lambda: REGIONS, lambda: _zones


def new_cloud():
    """One whose clock stands, and whose calls are not counted."""
    return Cloud(
        project="my-project", wall_clock=False, host="127.0.0.1", port=0, rate_limits=False, anonymous=False
    )
