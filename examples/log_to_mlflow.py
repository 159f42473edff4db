"""Each point of an experiment becomes a run of MLflow: its parameters, its course, its end and its cost.

The jobs know nothing of MLflow: it is told from here, by what they reported, and it is told once.
"""

import os
import tempfile

os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{tempfile.mkdtemp()}/mlflow.db")  # or your server

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

import gputrain

client = MlflowClient()
known = client.get_experiment_by_name("lr-scan")
experiment = known.experiment_id if known else client.create_experiment("lr-scan")


def tell(job):
    """Make the run of a job, unless it is there: its uri is what tells."""
    if client.search_runs([experiment], f"tags.`gputrain.uri` = '{job.uri}'"):
        return
    run = client.create_run(experiment, tags={"gputrain.uri": job.uri}, run_name=job.id).info.run_id
    metrics = job.metrics()
    course = [
        Metric(name, value, int(1000 * row.get("time", 0)), int(row["step"]))
        for row in metrics.rows
        for name, value in row.items()
        if name in metrics.names
    ]
    params = [Param(name, str(value)) for name, value in job.point.items()]
    for start in range(0, len(course), 1000):  # as many as the server takes at once
        client.log_batch(run, metrics=course[start : start + 1000])
    client.log_batch(run, params=params, metrics=[Metric("cost_usd", job.cost_usd or 0.0, 0, 0)])
    client.set_terminated(run, "FINISHED" if job.state == "succeeded" else "FAILED")


points = gputrain.grid(lr=[0.1, 0.03], seed=range(2))
scan = gputrain.Trainer().map("examples/train_session.py", points, name="mlflow", args=["--steps", "10"])
for done in scan.as_completed("200s"):
    tell(done)
    tell(done)  # once more is nothing
runs = client.search_runs([experiment], order_by=["metrics.loss"])
print(f"{len(runs)} runs; best: lr={runs[0].data.params['lr']}, loss={runs[0].data.metrics['loss']:.4f}")
