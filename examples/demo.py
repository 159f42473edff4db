"""Train a small transformer on 2 nodes x 2 ranks of this machine; stop it half way; take it up again.

The second run resumes from its checkpoint and ends with the loss curve of the run that was never stopped.
"""

import shutil
from pathlib import Path

import stopping  # noqa: F401  # Ctrl-C ends it with a line, and not with a traceback
from rich.console import Console

from gputrain import Trainer, TrainingSpec

STEPS = 60
OUT = Path("demo-output")
console = Console()
trainer = Trainer()


def spec(name: str) -> TrainingSpec:
    return TrainingSpec(
        script=str(Path(__file__).with_name("char_transformer.py")),
        args=["--steps", str(STEPS), "--save-every", "10", "--exact-resume"],
        num_nodes=2,
        nproc_per_node=2,
        name=name,
        checkpoint_dir=str(OUT / name),
        env={"TORCH_CPP_LOG_LEVEL": "ERROR"},  # DDP warns of what exact resume asks of it
        max_run_duration="10m",
    )


shutil.rmtree(OUT, ignore_errors=True)
console.rule("the plan")
plan = trainer.plan(spec("straight"))
console.print(plan)

console.rule("a run from beginning to end")
job = plan.submit()
job.wait(progress="rich")
whole = job.result().metrics
console.print(whole)

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
