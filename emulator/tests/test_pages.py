"""What is sold is written once: kept answers are those that would be written anew."""

from __future__ import annotations

import json
from typing import Any

from gputrain_emulator import Cloud
from gputrain_emulator.exchanges import Request

ZONE = "us-central1-a"
SOLD = f"/compute/v1/projects/my-project/zones/{ZONE}/machineTypes"
AGGREGATED = "/compute/v1/projects/my-project/aggregated/machineTypes"


def ask(cloud: Cloud, target: str) -> Any:
    reply = cloud.dispatcher.handle(Request(verb="GET", target=target)).reply
    assert isinstance(reply.body, bytes)
    return json.loads(reply.body)


def test_an_order_to_the_catalog_shows_on_every_page_at_once(cloud: Cloud) -> None:
    def listed() -> list[bool]:
        every = [
            ask(cloud, f"{AGGREGATED}?filter=name=a2-highgpu-1g")["items"][f"zones/{ZONE}"],
            ask(cloud, SOLD),
        ]
        every[0]["items"] = every[0].get("machineTypes", [])
        return [any(one["name"] == "a2-highgpu-1g" for one in page["items"]) for page in every]

    assert listed() == listed() == [True, True]
    cloud.offer("a2-highgpu-1g", ZONE, offered=False)
    assert listed() == listed() == [False, False]
