"""``import gputrain`` costs little more than Python itself."""

from collections.abc import Iterator

from measure import Measure, medians, python_s

PEERS = "import attrs, tenacity, google.auth"


def measure() -> Iterator[Measure]:
    """Whole processes, interleaved."""
    wall = medians(
        {code: lambda code=code: python_s(code) for code in ("pass", "import gputrain", PEERS)}, rounds=15
    )
    ours = wall["import gputrain"]
    yield Measure(
        what="import gputrain / import attrs + tenacity + google.auth", value=ours / wall[PEERS], target=1.3
    )
    yield Measure(what="import gputrain / python -c pass", value=ours / wall["pass"], target=3.0)
