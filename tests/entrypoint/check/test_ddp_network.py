"""NCCL falls back to TCP in silence; the session does not."""

from __future__ import annotations

import pytest

from gputrain.ddp.place import slow_network


def test_fast_gpus_on_several_nodes_without_a_profile_are_told() -> None:
    told = slow_network("NVIDIA H100 80GB HBM3", 2, {"PATH": "/bin", "NCCL_DEBUG": "INFO"})
    assert told is not None
    assert "2 nodes of NVIDIA H100 80GB HBM3" in told


@pytest.mark.parametrize("name", ["NCCL_NET", "NCCL_FASTRAK_IFNAME", "NCCL_GPUDIRECTTCPX_CTRL_DEV"])
def test_a_profile_of_any_family_is_enough(name: str) -> None:
    assert slow_network("NVIDIA H200", 2, {name: "x"}) is None


def test_one_node_or_slower_gpus_have_nothing_to_lose() -> None:
    assert slow_network("NVIDIA H100 80GB HBM3", 1, {}) is None
    assert slow_network("NVIDIA A100-SXM4-40GB", 4, {}) is None
