"""Three learning rates by two seeds, one job each; run it again, and it goes on where it was."""

import gputrain

trainer = gputrain.Trainer()
scan = trainer.map(
    "examples/train_session.py",
    gputrain.grid(lr=[0.1, 0.03, 0.003], seed=range(2)),
    name="lr-scan",
    args=["--steps", "20"],
)
for job in scan.as_completed(timeout=200):
    print(job.point, job.metrics().last["loss"])

print(scan)
print("best:", scan.best("loss", mode="min").point)
print(scan.plot("loss", log=True))
