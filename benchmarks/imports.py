"""``import gputrain`` costs little more than Python itself, and so does the command line before it works."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from measure import Measure, alternated, cost_of, python_s, with_byte_code

PEERS = "import attrs, tenacity, google.auth"
CODES = ("pass", "import gputrain", PEERS)


def measure() -> Iterator[Measure]:
    """Whole processes, interleaved."""
    took = alternated({code: lambda code=code: python_s(code) for code in CODES}, rounds=15, most_s=20)
    what = "import gputrain / import attrs + tenacity + google.auth"
    yield took.ratio("import gputrain", PEERS).measure(what, target=1.3, note=took.note)
    yield took.ratio("import gputrain", "pass").measure("import gputrain / python -c pass", target=3.0)
    helped = [sys.executable, "-m", "gputrain", "--help"]
    runs = {"help": lambda: cost_of(helped, with_byte_code()).wall_s, "pass": lambda: python_s("pass")}
    took = alternated(runs, rounds=15, most_s=20)
    yield took.ratio("help", "pass").measure("gputrain --help / python -c pass", target=4.0, note=took.note)
