"""Three learning rates, one job each, the best one by its last loss."""

from gputrain import Trainer
from gputrain.tables import Table

trainer = Trainer()
jobs = {
    rate: trainer.submit("examples/train_session.py", args=["--lr", rate, "--steps", "20"], nproc_per_node=2)
    for rate in ("0.1", "0.03", "0.003")
}
results = {rate: job.result(timeout=120) for rate, job in jobs.items()}
rows = [
    (rate, f"{done.metrics.last['loss']:.4f}", f"{done.duration.total_seconds():.1f}")
    for rate, done in results.items()
]
print(Table(title="Sweep", columns=("lr", "loss", "seconds"), rows=rows, right=("loss", "seconds")))
best = min(results, key=lambda rate: results[rate].metrics.last["loss"])
print(f"best learning rate: {best}")
