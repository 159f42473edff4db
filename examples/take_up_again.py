"""Submit in one process, let it die, take the job up in another by its name."""

import subprocess
import sys

import gputrain

SUBMIT = """
from gputrain import Trainer
print(Trainer().submit("examples/train_session.py", nproc_per_node=2, args=["--steps", "20"]).uri)
"""

uri = subprocess.run(
    [sys.executable, "-c", SUBMIT], capture_output=True, text=True, check=True
).stdout.strip()
print(f"the process that submitted it is gone; its job is {uri}")

job = gputrain.attach(uri)
result = job.result(timeout=120)
seconds, loss = result.duration.total_seconds(), result.metrics.last["loss"]
print(f"{result.state.value} after {seconds:.1f} s, last loss {loss:.4f}")
print(result.metrics)
