"""What is sold is written once: kept answers are those that would be written anew."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

import pytest

from gputrain_emulator import Cloud
from gputrain_emulator.call import Reply
from gputrain_emulator.compute import pages
from gputrain_emulator.exchanges import Request
from gputrain_emulator.faults import unreachable

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


def test_a_page_is_kept_for_the_very_query_only(cloud: Cloud) -> None:
    whole = ask(cloud, SOLD)
    assert ask(cloud, f"{SOLD}?fields=kind") == {"kind": "compute#machineTypeList"}
    assert ask(cloud, f"{SOLD}?maxResults=1")["items"] == whole["items"][:1]
    assert ask(cloud, SOLD) == whole


def test_a_kept_page_can_be_cut_by_order_and_is_whole_again(cloud: Cloud) -> None:
    whole = ask(cloud, AGGREGATED)
    cloud.fail("compute.machineTypes.aggregatedList", unreachable(ZONE))
    assert ask(cloud, AGGREGATED)["items"][f"zones/{ZONE}"]["warning"]["code"] == "UNREACHABLE"
    assert ask(cloud, AGGREGATED) == whole


def test_no_more_is_kept_than_its_bytes_allow(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_MOST_BYTES", 100_000)
    kept: dict[Hashable, Reply] = {}
    monkeypatch.setattr(pages, "_kept", kept)
    for number in range(1, 60):
        ask(cloud, f"{SOLD}?maxResults={number}")
    assert 1 < len(kept) < 59
    assert sum(len(reply.body) for reply in kept.values()) <= 100_000
