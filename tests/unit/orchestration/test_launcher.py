"""One key is one job, whoever is killed: submits of this machine, with real ranks."""

import random
import subprocess
import sys
import time

import pytest

from gputrain import Trainer
from gputrain.lifecycle import State
from tests.unit.local.jobs import Impatient

TRAINS = """
import sys, time
for word in ("starts", "ends"):
    with open(sys.argv[1], "a") as log:
        print(word, file=log)
    time.sleep(0.3)
"""
SUBMITS = """
import sys
from gputrain import Trainer
from tests.unit.local.jobs import Impatient
Trainer(Impatient(gpus=0, root=sys.argv[1])).submit(sys.argv[2], args=sys.argv[3:], idempotency_key="k")
"""


@pytest.mark.check
@pytest.mark.parametrize("seed", range(20))
def test_of_submitters_that_are_killed_at_any_moment_one_job_comes(seed, tmp_path):
    draw, root, script, log = random.Random(seed), *(tmp_path / name for name in ("jobs", "train.py", "log"))
    script.write_text(TRAINS)
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", SUBMITS, root, script, log])
        time.sleep(draw.uniform(0.3, 1.2))
        process.kill()
        process.wait()
    trainer = Trainer(Impatient(gpus=0, root=root))
    job = trainer.submit(str(script), args=[str(log)], idempotency_key="k")
    assert job.wait() is State.SUCCEEDED
    assert trainer.jobs() == [job]
    assert log.read_text().split() == ["starts", "ends"]
