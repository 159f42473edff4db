"""Train a small transformer on 2 nodes x 2 ranks of this machine; stop it half way; take it up again.

The second run resumes from its checkpoint and ends with the loss curve of the run that was never stopped.
"""

import shutil
from pathlib import Path

from rich.console import Console

from gputrain import Trainer, TrainingSpec

STEPS = 60
OUT = Path("demo-output")
console, trainer = Console(), Trainer()


def spec(name: str) -> TrainingSpec:
    return TrainingSpec(
        script=str(Path(__file__).with_name("char_transformer.py")), name=name, num_nodes=2, nproc_per_node=2,
        args=["--steps", str(STEPS), "--save-every", "10", "--exact-resume"], checkpoint_dir=str(OUT / name),
        env={"TORCH_CPP_LOG_LEVEL": "ERROR"}, max_run_duration="10m",  # DDP warns of exact resume's needs
    )  # fmt: skip


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    console.rule("the plan")
    plan = trainer.plan(spec("straight"))
    console.print(plan)
    console.rule("a run from beginning to end")
    job = plan.submit()
    job.wait(progress="rich")
    console.print(whole := job.result().metrics)

    console.rule("the same run, stopped half way")
    first = trainer.submit(spec("resumed"))
    for _ in first.logs(rank=0, follow=True):
        if first.metrics().last.get("step", 0) >= STEPS // 2 and not first.state.is_terminal:
            first.cancel()
    console.print(f"{first.uri}\nis {first.state.value} at step {first.metrics().last['step']}")

    console.rule("taken up again")
    second = trainer.submit(spec("resumed"))
    second.wait(progress="rich")
    console.print(second.result().metrics)
    losses = dict(first.metrics().series("loss")) | dict(second.metrics().series("loss"))
    apart = max(abs(loss - losses[step]) for step, loss in whole.series("loss"))
    console.print(f"\nLargest difference between the two loss curves over {len(losses)} steps: {apart:g}")
    assert apart == 0, "the resumed run is not the uninterrupted one"
    console.print("[bold green]The resumed run is the uninterrupted one.[/]")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt as stopped:  # a wait's says which job goes on, and how to take it up
        told = str(stopped) or "stopped; `gputrain jobs` lists what goes on"
        Console(stderr=True).print(told, soft_wrap=True)
        raise SystemExit(130) from None
