"""Submits step by step through the classes of gputrain that go with the job record's redesign.

Tests of those steps use it, and go with them; what is to stay judges through `tests.road`.
"""

import secrets
import time
from datetime import datetime, timezone

from gputrain.backends.base import Completes, SendsCode, Start
from gputrain.errors import CapacityError, GputrainError, NoPlacementError
from gputrain.gcp import UnclearError
from gputrain.lifecycle import State
from gputrain.planning import candidates, rank
from gputrain.planning.plan import Plan
from gputrain.records import Ask, Code, Record
from gputrain.records.record import spec_of
from gputrain.trainer.boards import Boards
from gputrain.trainer.claim import Claim
from gputrain.trainer.context import Memory, Surroundings
from gputrain.trainer.placing import Placing
from gputrain.trainer.restart import Restart
from gputrain.trainer.ways import way_of
from tests.patience import PATIENCE_S

NONCE = "00000000cafe"


class Steps:
    """One spec from its candidate to the end of its job, step by step."""

    def __init__(self, backend):
        self.backend = backend
        self._asked = {}
        access = getattr(backend, "_access", None)
        self._sleep = time.sleep if access is None else access.sleep
        self._now = time.time if access is None else access.now
        backends = {backend.name: backend}
        self.around = Surroundings(
            backends=backends, boards=Boards(backends), memory=Memory(), read_anew=self._read_anew,
            now=lambda: datetime.fromtimestamp(self._now(), timezone.utc), sleep=self._sleep,
        )  # fmt: skip

    def _read_anew(self, ones):
        return tuple(ones)

    def candidate(self, spec):
        return self.ladder(spec)[0]

    def ladder(self, spec):
        wanted = candidates(spec, [self.backend.supply])
        assert wanted.candidates, [str(refusal) for refusal in wanted.refusals if refusal.asked_for]
        return tuple(rank(wanted, self.backend.availability(wanted.candidates)))

    def request(self, spec, job_id=None):
        job_id = job_id or f"job-{secrets.token_hex(4)}"
        bundle = self.backend.stage(spec, job_id)
        self._asked[job_id] = (spec, bundle)
        one = self.candidate(spec)
        return self.backend.render(Start(spec=spec, candidate=one, job_id=job_id, bundle=bundle, nonce=NONCE))

    def create(self, request):
        """Ask for what a request says, with its record written before, as a climb does."""
        spec, bundle = self._asked[request.ref.name]
        claim = Claim(self.around.boards, request.ref.name, self.around.now)
        record = Record(
            job_id=request.ref.name, home=claim.home, spec=spec_of(spec, bundle.argv),
            code=Code(location=bundle.location, argv=bundle.argv, sha256=bundle.sha256),
        )  # fmt: skip
        request = self.backend.complete(request) if isinstance(self.backend, Completes) else request
        if isinstance(self.backend, SendsCode):
            self.backend.send(bundle)
        claim.ask(record, Ask(way=way_of(request.candidate), attempt=0, names=request.names, nonce=NONCE))
        try:
            return self.backend.create(request)
        except UnclearError:
            raise
        except GputrainError:
            claim.drop()
            raise

    def submit(self, spec, job_id=None, *, everywhere=False):
        """Submit to the best place, alone unless said; what that one answers is raised as it is."""
        job_id = job_id or f"job-{secrets.token_hex(4)}"
        found = self.ladder(spec) if everywhere else (self.candidate(spec),)
        plan = Plan(spec=spec, candidates=found, refusals=(), made_at=self.around.now())
        try:
            return Placing(self.around, plan, job_id).submit(is_new=False).ref
        except NoPlacementError as error:
            raise error.__cause__ or CapacityError("nowhere was tried") from None

    def restart(self, ref):
        """A fresh supervisor of a job, which remembers nothing."""
        return Restart(self.around, ref.name, ref.backend)

    def supervise(self, ref):
        """What a service does that looks after a job: a look, and what follows from it."""
        restart, seen = self.restart(ref), self.backend.observe(ref)
        restart.tidy(ref, self.backend, seen)
        is_off = seen.state is State.INTERRUPTED or (seen.state is State.FAILED and restart.way_on(seen))
        return bool(is_off and restart.go_on(seen, ()).placed)

    def until(self, ref, holds):
        """Look until an observation is as wished; a job that ends otherwise fails the test at once."""
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience:
            seen = self.backend.observe(ref)
            if holds(seen):
                return seen
            ended = seen.state is not None and seen.state.is_terminal
            assert not ended, (seen, self.text(ref))
            self.rest()
        raise AssertionError(f"not seen within {PATIENCE_S} s; last: {seen}; log: {self.text(ref)}")

    def rest(self):
        """What a watcher leaves between two looks."""
        time.sleep(self.backend.poll_s)

    def end(self, ref):
        return self.until(ref, lambda seen: seen.state is not None and seen.state.is_terminal)

    def lines(self, ref):
        """All log lines, page by page."""
        found, cursor = [], ""
        while page := self.backend.logs(ref, cursor):
            found += page.lines
            if page.cursor == cursor:
                return found
            cursor = page.cursor
        return found

    def text(self, ref):
        return "\n".join(line.message for line in self.lines(ref))

    def until_said(self, ref, words):
        """Look until some rank has written these words."""
        return self.until(ref, lambda _: words in self.text(ref))


def supervised(backend, ref):
    """Look after a job once, as a process that remembers nothing; whether that started it again."""
    return Steps(backend).supervise(ref)
