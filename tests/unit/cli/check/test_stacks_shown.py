"""`gputrain stacks` on a job that runs here."""

from gputrain import Local, Trainer
from tests.patience import PATIENCE_S

STANDS = """
import time

def evaluate():
    print("here", flush=True)
    time.sleep(600)

evaluate()
"""


def test_stacks_are_shown_at_a_terminal(run, read, script):
    job = Trainer(Local(gpus=0)).submit(script(STANDS), nproc_per_node=2, max_run_duration="5m")
    next(line for line in job.logs(follow=True) if line.message == "here")
    status, out, _ = run("stacks", job.id)
    assert status == 0
    assert "evaluate" in out
    status, document = read("stacks", job.uri, "--timeout", "30s")
    assert (status, [one["rank"] for one in document["ranks"]]) == (0, [0, 1])
    job.cancel()
    job.wait(PATIENCE_S, progress="none")
