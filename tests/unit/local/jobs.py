"""Jobs of one folder, launched and looked after as a trainer does it, by a record and its attempts."""

import os
import secrets
import signal
import sys
import time

import attrs

from gputrain.backends.local import Local
from gputrain.orchestration.launcher import submit
from gputrain.orchestration.look import look
from gputrain.orchestration.options import draw
from tests.patience import PATIENCE_S, until
from tests.support.attempts import Process
from tests.support.processes import living


class Impatient(Local):
    launch_ttl_s = 1.0


def jobs_of(root, gpus=0):
    """Jobs of this machine, in a folder."""
    return Jobs(Impatient(gpus=gpus, root=root), root)


class Jobs(Process):
    """What a trainer does with jobs of one folder, each by its record."""

    def __init__(self, backend, root):
        self.root = root
        super().__init__(backend, time.time, lambda seconds: time.sleep(min(seconds, 3.0)))

    def first(self, job_id="", **spec):
        """A record without an attempt, and its plan."""
        return super().first(job_id or f"job-{secrets.token_hex(4)}", self.spec(**spec))

    def submit(self, **spec):
        """The record of a job that was launched."""
        return submit(self.context, *self.first(**spec), None).record

    def drawn(self, **spec):
        """The record of a job whose attempt was drawn and not launched, and its request."""
        record, plan = self.first(**spec)
        attempt = draw(record, plan[0], self.context.now())
        request = self.backend.build_request(record, self.spec(**spec), attempt, plan[0], self.code(record))
        return record.begin(attempt), request

    def status(self, record):
        return self.backend.inspect_many([record])[record.job_id]

    def change(self, record, **changes):
        """Change the record as another process would."""
        stored = self.context.jobs.read(record.job_id)
        return self.context.jobs.swap(attrs.evolve(stored.record, **changes), stored.version).record

    def end(self, record):
        """The record of the job once it has ended, as each step of it is taken."""

        def has_ended():
            found = self.reconcile(record.job_id).stored.record
            return found if found.has_ended else None

        return until(has_ended)

    def state(self, record):
        return look(self.context, record.job_id).state

    def text(self, record):
        """What its agents and ranks wrote."""
        return "\n".join(self.lines(record, of_agents=True))

    def lines(self, record, *, of_agents=False):
        """What its ranks wrote, page by page."""
        found, cursor = [], ""
        while page := self.backend.logs(record, cursor):
            found += [line.message for line in page.lines if of_agents or line.rank is not None]
            if page.cursor == cursor:
                return found
            cursor = page.cursor
        return found

    def until_said(self, record, words, times=1):
        return until(lambda: sum(words in line for line in self.lines(record)) >= times)

    def folder(self, record):
        return self.root / record.job_id / record.attempt.id

    def processes(self, record):
        """The processes of a job that live, by pid: its supervisor, agents, ranks and what those started."""
        folder = str(self.root / record.job_id).encode()
        return {
            pid: b" ".join(words).decode(errors="replace")
            for pid, (words, environ) in living().items()
            if f"GPUTRAIN_JOB_ID={record.job_id}".encode() in environ
            or any(one.startswith(folder) for one in words)
        }

    def one_of(self, record, words):
        """The one process of a job whose command line holds ``words``."""
        found = [pid for pid, line in self.processes(record).items() if words in line]
        # In the interpreter of `tests.soak.portable` each has a second, its holder.
        assert len(found) == 1 or (found and hasattr(sys, "seeing")), found
        return min(found)

    def kill(self, record, words, number=signal.SIGKILL):
        os.kill(self.one_of(record, words), number)

    def none_left(self, record, within_s=PATIENCE_S):
        """Whether all processes of a job are gone, or go within so long."""
        until(lambda: not self.processes(record), seconds=within_s, shown=lambda: self.processes(record))
        return True
