"""What really happened, kept beside the clouds: who trained when, what a client was told, what broke."""

import attrs


@attrs.define
class Training:
    """Ranks of one ask that ran on one machine."""

    job_id: str
    nonce: str
    machine: str
    since: float
    until: float = float("inf")
    code: int | None = None


@attrs.frozen(kw_only=True)
class Told:
    """A state that a client was told, and when it had asked."""

    client: str
    job_id: str
    state: str
    asked_at: float
    told_at: float


@attrs.frozen(kw_only=True)
class Act:
    """Something that a client did, and how it went: an error's class, or empty."""

    client: str
    name: str
    job_id: str
    began_at: float
    ended_at: float
    error: str


@attrs.frozen(kw_only=True)
class Violation:
    """A law that did not hold."""

    law: str
    what: str


class Truth:
    """One schedule's."""

    def __init__(self, clock):
        self.clock = clock
        self.trainings = []
        self.told = []
        self.acts = []
        self.violations = []
        self.waits = []
        """Of each call, the share of its bound that it took, and what it was."""

    def violate(self, law, what):
        self.violations.append(Violation(law=law, what=what))

    def trains(self, guest):
        """The ranks of a guest run from now on."""
        job_id, machine = _of(guest)
        one = Training(job_id, guest.nonce, machine, self.clock.now())
        others = [
            other for other in self.trainings
            if other.job_id == job_id and other.until > one.since
            and (other.nonce != one.nonce or (other.machine != machine and not hasattr(guest, "vm")))
        ]  # fmt: skip
        if others:
            self.violate("one job a key", f"ranks of {one} run beside {others}")
        self.trainings.append(one)

    def rests(self, guest, code=None):
        """They do not any more."""
        _, machine = _of(guest)
        for one in self.trainings:
            if one.machine == machine and one.until == float("inf"):
                one.until = self.clock.now()
            if one.machine == machine and code is not None:
                one.code = code

    def trained(self, job_id):
        return [one for one in self.trainings if one.job_id == job_id]


def _of(guest):
    if hasattr(guest, "vm"):
        return guest.job["job_id"], guest.vm.id
    labels = guest.job.document.get("labels", {})
    return labels.get("gputrain-job", guest.job.document["displayName"]), guest.job.id
