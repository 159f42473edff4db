"""One backend in a world of its own, and what a caller does with jobs there.

Only public names of gputrain are used: what stands behind them may be rewritten, and these tests judge it.
"""

import os
import subprocess
import sys
import time

import pytest

from gputrain import Trainer
from tests.patience import PATIENCE_S, until


class Road:
    """A trainer over one backend. A world is a subclass: it makes the backend, and moves what it can.

    A world without some matter skips the test that needs it, and says what it lacks.
    """

    ANSWERS = True
    """Whether its agents can be asked where ranks stand."""
    HAS_GPUS = False

    def __init__(self):
        self.environment = {}
        self.trainer = self.fresh()

    def backend(self, tenant=""):
        """A backend that remembers nothing; each tenant keeps its jobs in a place of its own."""
        raise NotImplementedError

    def setup(self):
        """Python that makes a `trainer` of this world in another process."""
        raise NotImplementedError

    def living(self):
        """The names of all that runs in this world now, and would be paid for."""
        raise NotImplementedError

    def begun(self):
        """How many times this world was asked for machines, and gave them."""
        raise NotImplementedError

    def preempt(self, _job):
        """Take a running job's machine away."""
        pytest.skip("nothing is preempted here")

    def preemptible(self):
        """Fields of a job on which `preempt` may be used."""
        return {"max_restarts": 1}

    def exhaust(self, _place):
        """Let a place have no machines left."""
        pytest.skip("it has one place")

    def movable(self):
        """Fields of a job that has two places to run at."""
        return {}

    WAITS_FOR_MACHINES = False
    """A submit returns once the machines are there."""

    def delay(self):
        """Let machines come late from now on."""
        pytest.skip("its machines are there already")

    def fields(self, fields):
        """The fields of a job that says only what to run."""
        return fields

    def fresh(self, tenant=""):
        """A trainer that remembers nothing."""
        return Trainer(self.backend(tenant))

    def plan(self, entry=None, **fields):
        return self.trainer.plan(entry, **self.fields(fields))

    def submit(self, entry=None, *, key=None, trainer=None, **fields):
        return (trainer or self.trainer).submit(entry, idempotency_key=key, **self.fields(fields))

    def process(self, code):
        """Another process with a `trainer` of this world."""
        env, pipe = {**os.environ, **self.environment}, subprocess.PIPE
        words = [sys.executable, "-c", f"{self.setup()}\n{code}"]
        return subprocess.Popen(words, env=env, stdout=pipe, stderr=pipe, text=True)

    def submitter(self, script, key):
        """Another process that submits, and prints the job's URI."""
        call = f"trainer.submit({script!r}, idempotency_key={key!r}, **{self.fields({})!r})"
        return self.process(f"print({call}.uri)")

    def end(self, job):
        """How the job ended."""
        return job.wait(PATIENCE_S, progress="none")

    def until(self, job, holds, *, may_end=False):
        """Look after a job until something holds; its end before that fails the test at once."""
        patience = time.monotonic() + PATIENCE_S
        while True:
            job.refresh()
            job.supervise()
            if holds(job):
                return
            assert may_end or not job.state.is_terminal, (job.to_dict(), self.text(job))
            assert time.monotonic() < patience, (job.to_dict(), self.text(job))
            time.sleep(job.poll_s)

    def until_said(self, job, words, times=1):
        """Until the job's log has these words so often."""
        self.until(job, lambda _: self.text(job).count(words) >= times)

    def until_idle(self):
        """Until nothing runs in this world."""
        until(lambda: not self.living(), shown=self.living, every_s=0.05)

    def text(self, job):
        return "\n".join(line.message for line in job.logs())


def said_by(process):
    """What a process printed, once it has ended well."""
    said, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return said
