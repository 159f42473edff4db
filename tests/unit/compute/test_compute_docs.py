"""What the pages promise is what the code needs."""

import re
from pathlib import Path

from gputrain.backends.compute import preflight
from gputrain.doctor.permissions import On

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "compute.md").read_text()
LOOKS = {"compute.subnetworks.get", "compute.routers.list"}
GOOGLES_OWN = {"compute.disks.setLabels"}
"""Google asks for it where a new disk has labels; the emulator does not tell it from the disk's creation."""


def test_the_role_on_the_page_is_the_table_of_needs_and_nothing_more():
    command = re.search(r"gputrainCompute .*?--permissions \\\n(.*?)\ngcloud", PAGE, re.DOTALL)[1]
    told = set(command.replace("\\\n", "").split(","))
    needed = {need.name for need in preflight.NEEDS if need.on is On.PROJECT}
    assert told == needed | LOOKS | GOOGLES_OWN
