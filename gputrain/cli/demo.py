"""``gputrain demo``: train a small transformer on 2 nodes x 2 ranks of this machine, stop it, and resume it.

The resumed run ends with the loss curve of a run that was not stopped.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

from rich.console import Console

from gputrain.errors import RequestError
from gputrain.job import Job
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer

STEPS = 60
_PACKAGE = Path(__file__).parents[1]
FOLDERS = (_PACKAGE / "demo", _PACKAGE.parent / "examples")
"""Where the script is: in the wheel, or in a clone."""


def run() -> None:
    """Show the plan, a whole run, a stopped run and its second half.

    Raises:
        RequestError: there is no torch.
        JobError: a run failed.
    """
    if importlib.util.find_spec("torch") is None:
        raise RequestError("the demo needs PyTorch", fix="python -m pip install torch")
    with tempfile.TemporaryDirectory(prefix="gputrain-demo-") as folder:
        _run(Path(folder))


def _run(folder: Path) -> None:
    console, trainer = Console(), Trainer()
    console.rule("the plan")
    plan = trainer.plan(_spec(folder / "whole"))
    console.print(plan)
    console.rule("a run from beginning to end")
    whole = _watched(plan.submit(), console)

    console.rule("the same run, stopped half way")
    first = trainer.submit(_spec(folder / "resumed"))
    for _ in first.logs(rank=0, follow=True):
        if first.metrics().last.get("step", 0) >= STEPS // 3 and not first.state.is_terminal:
            first.cancel()
    console.print(f"{first.uri}\nis {first.state.value} at step {first.metrics().last['step']}")

    console.rule("resumed")
    second = _watched(trainer.submit(_spec(folder / "resumed")), console)
    losses = {**_losses(first), **_losses(second)}
    difference = max(abs(loss - losses[step]) for step, loss in _losses(whole).items())
    text = f"Largest difference between the two loss curves over {len(losses)} steps: {difference:g}"
    console.print(f"\n{text}")
    if difference:
        raise RequestError("the resumed run differs from the uninterrupted one", fix="report it")
    console.print("[bold green]The resumed run is the uninterrupted one.[/]")


def _spec(checkpoints: Path) -> TrainingSpec:
    script = next(path for one in FOLDERS if (path := one / "char_transformer.py").exists())
    return TrainingSpec(
        script=str(script), name=checkpoints.name, num_nodes=2, nproc_per_node=2, max_run_duration="10m",
        args=["--steps", str(STEPS), "--save-every", "10", "--exact-resume"],
        checkpoint_dir=str(checkpoints), env={"TORCH_CPP_LOG_LEVEL": "ERROR"},  # DDP warns
    )  # fmt: skip


def _watched(job: Job, console: Console) -> Job:
    job.wait(progress="rich")
    console.print(job.result().metrics)
    return job


def _losses(job: Job) -> dict[float, float]:
    return dict(job.metrics().series("loss"))
