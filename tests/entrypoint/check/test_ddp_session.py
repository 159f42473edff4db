"""A session of one process, as on a laptop: the same script, no launcher."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402  # after the skip

from gputrain import ddp  # noqa: E402  # as above
from gputrain.ddp import CheckpointError, SessionError  # noqa: E402  # as above
from gputrain.ddp.process_group import Place, choose_device  # noqa: E402  # as above
from tests.each import each  # noqa: E402  # as above


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    handler = signal.getsignal(signal.SIGTERM)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GPUTRAIN_CHECKPOINT_DIR", "AIP_CHECKPOINT_DIR"):
        monkeypatch.delenv(name, raising=False)
    yield
    signal.signal(signal.SIGTERM, handler)


def train(directory: Path, steps: int, *, stop_at: int = 0, **options: Any) -> list[float]:
    """A few steps of a small model with dropout and all random generators at work; the losses by step."""
    losses = []
    with ddp.session(device="cpu", checkpoint_dir=str(directory), **options) as s:
        model = s.wrap(
            torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        )
        optimizer = torch.optim.Adam(model.parameters())
        s.register(model=model, optimizer=optimizer)
        for step, x in s.steps(
            s.loader(torch.randn(24, 4, generator=torch.Generator()), 2), max_steps=steps, save_every=5
        ):
            loss = (model(x) * random.random()).pow(2).mean() + torch.rand(())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
    return losses


def test_a_script_without_a_launcher_is_a_world_of_one() -> None:
    with ddp.session(device="cpu") as s:
        assert (s.rank, s.local_rank, s.world_size, s.is_main) == (0, 0, 1, True)
        assert s.device == torch.device("cpu")
        assert isinstance(s.wrap(torch.nn.Linear(1, 1)), torch.nn.parallel.DistributedDataParallel)
        assert dist.get_backend() == "gloo"
    assert not dist.is_initialized()


def test_a_process_group_of_the_scripts_own_is_used_and_left_alone() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with ddp.session(device="cpu") as s:
            assert s.world_size == 1
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("stop_at", [3, 5, 12, 17])
def test_a_run_taken_up_again_is_the_run_nobody_stopped(tmp_path: Path, stop_at: int) -> None:
    whole = train(tmp_path / "whole", 20)
    with pytest.raises(SystemExit):
        train(tmp_path / "stopped", 20, stop_at=stop_at)
    assert train(tmp_path / "stopped", 20) == whole[stop_at:]


def test_a_stop_during_the_last_step_is_a_finished_run(tmp_path: Path) -> None:
    assert len(train(tmp_path, 8, stop_at=8)) == 8
    assert train(tmp_path, 8) == []


def test_with_stop_every_a_stop_waits_for_a_step_that_counts(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        train(tmp_path, 20, stop_at=5, stop_every=4)
    assert ddp.Checkpoints(str(tmp_path)).latest() == 8


def test_a_loop_of_your_own_resumes_saves_and_stops(tmp_path: Path) -> None:
    def body(steps: int, stop_at: int) -> int:
        with ddp.session(device="cpu", checkpoint_dir=str(tmp_path)) as s:
            best = {"loss": 9.0}
            s.register(best=best)
            start = s.resume()
            for step in range(start + 1, steps + 1):
                best["loss"] -= 1
                if step == stop_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                if s.should_stop():
                    s.save(step)
                    break
            return int(best["loss"])

    with pytest.raises(SystemExit):
        body(6, stop_at=4)
    assert body(6, stop_at=0) == 9 - 6


def test_plain_data_is_restored_in_place(tmp_path: Path) -> None:
    history: list[float] = [1.0]
    progress = {"best": 1.0}
    with ddp.session(device="cpu", checkpoint_dir=str(tmp_path)) as s:
        s.register(history=history, progress=progress)
        s.save(1)
        history.append(2.0)
        progress["more"] = 3.0
    with ddp.session(device="cpu", checkpoint_dir=str(tmp_path)) as s:
        s.register(history=history, progress=progress)
        assert s.resume() == 1
    assert history == [1.0]
    assert progress == {"best": 1.0}


def test_weights_are_saved_without_the_wrapper(tmp_path: Path) -> None:
    with ddp.session(device="cpu", checkpoint_dir=str(tmp_path)) as s:
        s.register(model=s.wrap(torch.nn.Linear(2, 1)))
        s.save(1)
    found = ddp.Checkpoints(str(tmp_path)).restore()
    assert found is not None
    torch.nn.Linear(2, 1).load_state_dict(found.shared["objects"]["model"])


def test_other_names_than_those_saved_are_refused(tmp_path: Path) -> None:
    with ddp.session(device="cpu", checkpoint_dir=str(tmp_path)) as s:
        s.register(model=torch.nn.Linear(1, 1))
        s.save(1)
    with ddp.session(device="cpu", checkpoint_dir=str(tmp_path)) as s:
        s.register(net=torch.nn.Linear(1, 1))
        with pytest.raises(CheckpointError, match="holds model but this script registers net"):
            s.resume()


def test_a_checkpoint_of_the_scripts_own_making_is_not_taken_for_the_sessions(tmp_path: Path) -> None:
    ddp.Checkpoints(str(tmp_path)).save(1, {"weights": torch.zeros(1)})
    with ddp.session(device="cpu", checkpoint_dir=str(tmp_path)) as s:
        with pytest.raises(CheckpointError, match="was not saved by a session"):
            s.resume()
        assert s.checkpoints.restore().step == 1  # type: ignore[union-attr]


def test_an_object_that_cannot_be_restored_is_refused_when_registered() -> None:
    with (
        ddp.session(device="cpu") as s,
        pytest.raises(SessionError, match="'best' cannot be registered") as caught,
    ):
        s.register(best=0.5)
    assert "best={...}" in caught.value.fix


def test_without_a_directory_nothing_is_saved_and_it_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    with ddp.session(device="cpu") as s:
        assert list(s.steps([1, 2, 3], epochs=2, save_every=1)) == list(enumerate([1, 2, 3, 1, 2, 3], 1))
        with pytest.raises(SessionError, match="no checkpoint directory"):
            s.checkpoints.latest()
    assert capfd.readouterr().err.count("nothing is saved") == 1


def test_the_environment_names_the_checkpoint_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTRAIN_CHECKPOINT_DIR", str(tmp_path / "here"))
    with ddp.session(device="cpu") as s:
        s.save(3)
        assert s.checkpoints.latest() == 3


def test_a_session_keeps_as_many_checkpoints_as_asked_for(tmp_path: Path) -> None:
    with ddp.session(device="cpu", checkpoint_dir=str(tmp_path), keep=1) as s:
        s.save(1)
        s.save(2)
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-000000000002"]


def test_seeds_make_two_runs_alike_unless_told_not_to() -> None:
    def draw(seed: int | None) -> tuple[float, float]:
        with ddp.session(device="cpu", seed=seed):
            return random.random(), float(torch.rand(()))

    assert draw(4) == draw(4)
    assert draw(4) != draw(5)
    random.seed(1)
    first = draw(None)[0]
    random.seed(1)
    assert random.random() == first


@each(
    ("use", "words"),
    [
        (lambda s: s.steps([1]), "does not know where to end"),
        (lambda s: (s.steps([1], epochs=1), s.steps([1], epochs=1)), "once in a session"),
        (lambda s: list(s.steps([], epochs=1)), "gave no batch"),
        (lambda s: s.wrap(torch.nn.Linear(1, 1), static_graph=True), "static_graph"),
        (lambda s: s.resume(allow_world_size_change=True), "never gives the same bits"),
    ],
)
def test_what_a_session_cannot_do_is_refused_in_words(use: Any, words: str) -> None:
    with ddp.session(device="cpu", exact_resume=True) as s, pytest.raises(SessionError, match=words):
        use(s)


def test_fewer_steps_than_are_done_is_refused(tmp_path: Path) -> None:
    train(tmp_path, 10)
    with pytest.raises(SessionError, match="10 steps done, more than max_steps=5"):
        train(tmp_path, 5)


def as_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)


@pytest.mark.parametrize(
    ("world_size", "wanted", "kind"),
    [(1, None, "mps"), (1, "mps", "mps"), (1, "cpu", "cpu"), (2, None, "cpu")],
)
def test_a_lone_rank_takes_the_gpu_of_a_mac(
    monkeypatch: pytest.MonkeyPatch, world_size: int, wanted: Any, kind: str
) -> None:
    as_on_a_mac(monkeypatch)
    assert choose_device(Place(0, 0, world_size, world_size), wanted).type == kind
