"""Whatever is sent, the answer is Google's shape of a refusal and the emulator itself does not fail."""

from __future__ import annotations

import requests

import gputrain_emulator
from tests.each import each


@each(
    ("command", "arguments"),
    [
        ("set_apart", '{"seconds": 1e30}'),
        ("set_apart", '{"seconds": -1e30}'),
        ("price", '{"part": "nvidia-l4", "region": "us-central1", "model": "SPOT", "usd": "q"}'),
        ("ledger", "[" * 100_000),
        ("rate_limit", '{"pool": "compute.reads", "per_minute": "many"}'),
        ("rate_limit", '{"pool": "compute.reads", "per_minute": -1}'),
        ("quota", '{"metric": "CPUS", "limit": 1e999}'),
        ("stock", '{"zone": "us-central1-a", "machine": "g2-standard-4", "count": "3"}'),
        ("add_project", '{"name": 7}'),
        ("add_image", '{"name": "a/b/c", "platforms": "linux/amd64"}'),
        ("enable_api", '{"api": ["compute"]}'),
        ("settings", '{"stop_s": "soon"}'),
        ("fail", '{"method": "compute.zones.list", "fault": 7}'),
        ("fail", '{"method": "compute.zones.list", "fault": "late", "seconds": "1"}'),
        ("fail", '{"method": "compute.zones.list", "fault": "late", "seconds": 1e300}'),
        ("fail", '{"method": "compute.zones.list", "fault": "drip", "seconds": -1}'),
        ("fail", '{"method": "compute.zones.list", "fault": "error", "status": 7}'),
        ("fail", '{"method": "compute.zones.list", "fault": "html", "probability": "often"}'),
        ("fail", '{"method": "compute.zones.list", "fault": "html", "times": "twice"}'),
    ],
)
def test_a_command_that_cannot_be_is_refused_and_the_next_request_answered(
    command: str, arguments: str
) -> None:
    with gputrain_emulator.start() as cloud:
        url = cloud.endpoints.url
        assert requests.post(f"{url}/_emulator/{command}", data=arguments, timeout=20).status_code == 400
        assert requests.get(f"{url}/compute/v1/projects/my-project/zones", timeout=20).ok
        assert cloud.dispatcher.failures == []
