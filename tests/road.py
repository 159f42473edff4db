"""The road of one spec over the seam between gputrain and a platform."""

import secrets
import time

from gputrain.planning import candidates, rank

PATIENCE_S = 60.0


class Road:
    """The road of one spec over the seam, step by step, and what a waiting client does at its end."""

    def __init__(self, backend):
        self.backend = backend

    def candidate(self, spec):
        wanted = candidates(spec, [self.backend.supply])
        assert wanted.candidates, [str(refusal) for refusal in wanted.refusals if refusal.asked_for]
        return rank(wanted, self.backend.availability(wanted.candidates))[0]

    def request(self, spec, job_id=None):
        job_id = job_id or f"job-{secrets.token_hex(4)}"
        bundle = self.backend.stage(spec, job_id)
        return self.backend.render(spec, self.candidate(spec), job_id, bundle)

    def submit(self, spec, job_id=None):
        return self.backend.create(self.request(spec, job_id))

    def until(self, ref, holds):
        """Look until an observation is as wished; a job that ends otherwise fails the test at once."""
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience:
            seen = self.backend.observe(ref)
            if holds(seen):
                return seen
            ended = seen.state is not None and seen.state.is_terminal
            assert not ended, (seen, self.text(ref))
            time.sleep(self.backend.poll_s)
        raise AssertionError(f"not seen within {PATIENCE_S} s; last: {seen}; log: {self.text(ref)}")

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
