"""What a type checker sees of the face: read by mypy, never run."""

from collections.abc import Iterator
from concurrent.futures import Future

from typing_extensions import assert_type

import gputrain
from gputrain import CapacityError, ComputeEngine, Job, Local, Plan, State, Trainer, TrainingSpec, VertexAI
from gputrain.backends.base import LogLine
from gputrain.doctor import Check, Checks
from gputrain.errors import Scope
from gputrain.job import Result
from gputrain.planning import Candidate, Ledger

spec = TrainingSpec(script="train.py", gpu="H100:2", max_run_duration="12h")
assert_type(spec.replace(num_nodes=2), TrainingSpec)
trainer = Trainer(Local())
plan = trainer.plan(spec)
assert_type(plan, Plan)
assert_type(plan.submit(idempotency_key="monday"), Job)
job = plan.submit()
assert_type(job, Job)
assert_type(job.wait(timeout=10), State)
assert_type(job.result(), Result)
assert_type(job.ssh_command(1), str)
assert_type(job.logs(rank=0, follow=True), Iterator[LogLine])
assert_type(Trainer([VertexAI("my-project", "us-central1"), Local()]).plan(spec), Plan)
assert_type(Trainer(ComputeEngine("my-project", regions=["us-central1"], bucket="gs://b-1")).plan(spec), Plan)
assert_type(trainer.doctor(), Checks)
assert_type(trainer.doctor("train.py", gpu="L4:2").faults, tuple[Check, ...])
assert_type(trainer.run("train.py", gpu="L4:2"), Result)
assert_type(gputrain.attach(job.uri), Job)
assert_type(job.cost_usd, float | None)
assert_type(job.attempts, Ledger)
assert_type(plan.best, Candidate)

full = CapacityError("no room")
assert_type(full.scope, Scope)
assert_type(full.kind, str)
assert_type(full.retryable or full.try_elsewhere, bool)

scan = trainer.map("train.py", gputrain.grid(lr=[1e-4, 3e-4]), name="scan", gpu="L4:1", max_parallel=2)
assert_type(scan, gputrain.Experiment)
assert_type(scan.best("loss", mode="max"), Job)
assert_type(trainer.experiment("scan").wait(timeout=10), gputrain.Experiment)
assert_type(job.future(), Future[Result])
trainer.map("train.py", [{"lr": 1}], name="scan", num_node=2)  # type: ignore[call-arg]


async def awaited() -> Result:
    """What an await gives."""
    return await job
