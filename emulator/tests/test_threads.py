"""Many clients at once: no error, nothing lost, nothing made twice."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import requests

import gputrain_emulator
from emulator.tests.compute import ZONE, P

URL = f"/compute/v1/projects/{P}/zones/{ZONE}"
DISK = {
    "boot": True,
    "autoDelete": True,
    "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
}


def body(name: str, machine: str = "e2-standard-2") -> dict[str, object]:
    return {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/{machine}",
        "disks": [DISK],
        "networkInterfaces": [{}],
    }


def test_sixteen_threads_of_mixed_requests_meet_no_error() -> None:
    with gputrain_emulator.start(rate_limits=False) as cloud:

        def work(thread: int) -> Counter[int]:
            seen: Counter[int] = Counter()
            with requests.Session() as session:
                for number in range(20):
                    name = f"vm-{thread}-{number}"
                    base = f"{cloud.endpoints.url}{URL}"
                    seen[session.post(f"{base}/instances", json=body(name), timeout=60).status_code] += 1
                    seen[session.get(f"{base}/instances/{name}", timeout=60).status_code] += 1
                    seen[session.get(f"{base}/instances?maxResults=20", timeout=60).status_code] += 1
                    seen[session.get(f"{base}/operations?maxResults=20", timeout=60).status_code] += 1
                    if number % 4 == 3:
                        cloud.clock.advance(1)
                        seen[session.delete(f"{base}/instances/{name}", timeout=60).status_code] += 1
            return seen

        with ThreadPoolExecutor(16) as pool:
            total = sum(pool.map(work, range(16)), Counter())
        assert total == Counter({200: 16 * (20 * 4 + 5)})
        assert len(cloud.ledger.events("create", "instances/")) == 320
        assert cloud.dispatcher.failures == []
        cloud.clock.advance(600)
        assert len(cloud.compute.vms) == 320 - 80
