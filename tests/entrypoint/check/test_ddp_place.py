"""Which rank this process is, by its environment; and the clear words when the environment does not say."""

from __future__ import annotations

import pytest
import torch

from gputrain import ddp
from gputrain.ddp import SessionError
from gputrain.ddp.process_group import Place, check_gpus, checkpoint_dir_in, place_in

TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def test_torchruns_environment_is_taken_as_it_is() -> None:
    assert place_in(TORCHRUN) == Place(3, 1, 4, 2)


@pytest.mark.parametrize("missing", ["LOCAL_RANK", "RANK", "MASTER_PORT"])
def test_half_an_environment_is_refused_with_the_missing_name(missing: str) -> None:
    half = {name: value for name, value in TORCHRUN.items() if name != missing}
    with pytest.raises(SessionError, match=f"but not {missing}"):
        place_in(half)


def test_more_ranks_than_gpus_are_refused_on_every_rank_alike() -> None:
    for local_rank in range(4):
        with pytest.raises(SessionError, match="4 ranks on this machine, but torch sees 2 GPUs") as caught:
            check_gpus(Place(local_rank, local_rank, 4, 4), 2)
        assert "nproc_per_node=2" in caught.value.fix


def test_a_bare_start_that_would_leave_vertex_gpus_idle_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLUSTER_SPEC", "{}")
    with pytest.raises(SessionError, match="a Vertex AI machine of 8 GPUs"), ddp.session():
        pass


def test_our_own_checkpoint_directory_comes_before_vertex_one() -> None:
    both = {"GPUTRAIN_CHECKPOINT_DIR": "/data/run", "AIP_CHECKPOINT_DIR": "gs://bucket/run"}
    assert checkpoint_dir_in(both) == "/data/run"
    assert checkpoint_dir_in({}) is None


def test_a_bucket_that_is_not_mounted_is_refused() -> None:
    with pytest.raises(SessionError, match="no buckets are mounted here"):
        checkpoint_dir_in({"AIP_CHECKPOINT_DIR": "gs://bucket/run"})
