"""One VM of a job: the steps of its supervisor and agent, at the moments at which they take them."""

import json
import math
from datetime import datetime, timezone

from gputrain.runtime.contract import BOOT, SCHEMA, SUPERSEDED, TOO_EARLY, UNABLE
from gputrain.runtime.fence import MINE
from gputrain_emulator.compute import lifecycle
from tests.simulation.fates import fate_of
from tests.simulation.fences import GuestFence, attempt_of

GRACE_S = 30.0
PEERS_EVERY_S = 10.0
LEAD_S = 30.0
NOTICED_S = 6.0
"""How long the agents need to see that a peer is gone."""


class VmGuest:
    """One VM of a job."""

    def __init__(self, guests, vm, job):
        self.guests, self.vm, self.job = guests, vm, job
        self.fate = fate_of(guests.seed, vm.name, guests.ends)
        self.rank = job["names"].index(vm.name)
        self.folder = f"{job['folder']}{job['attempt']}/"
        self.nonce = attempt_of(vm.resource["labels"])
        self.fence = GuestFence(guests, job["bucket"], job["record"], job["attempt"])
        who = {"node_rank": self.rank, "attempt": 0, "vm_id": vm.id, "zone": job["zone"]}
        self.status = {"schema": SCHEMA, **who}
        self.is_off = self.is_over = self.is_killed = False
        self.booted_at, self.trains_since = guests.clock.now(), math.inf
        self.deadline = guests.clock.now() + job["max_run_s"] - (LEAD_S if job["max_run_s"] >= 300 else 0)
        if self.fate.end != "no boot":
            self.after(self.fate.boot_s, self.begin)

    @property
    def phase(self):
        return self.status.get("phase", "")

    @property
    def peers(self):
        latest = {one.vm.name: one for one in self.guests.by_vm.values() if one.nonce == self.nonce}
        return [one for name, one in latest.items() if name != self.vm.name]

    @property
    def saves(self):
        """Whether its ranks have run for a second, or have ended and it has not said so yet."""
        has_run = self.is_over or self.guests.clock.now() - self.trains_since > 1.0
        return not self.is_off and has_run and self.phase == "running"

    def after(self, seconds, step):
        self.guests.clock.after(seconds, lambda: None if self.is_off else step())

    def off(self):
        """The machine has no power from now on."""
        if not self.is_off:
            self.is_off = True
            self.guests.truth.rests(self)

    def tell(self, phase, **more):
        self.status.update(more, phase=phase)
        self.status[f"{phase}_at"] = _time(self.guests.clock.now())
        if self.fate.end == "mute":
            return
        body = json.dumps(self.status).encode()
        self.guests.put(self.job["bucket"], f"{self.folder}status-{self.rank}.json", body)
        if more.get("why") in UNABLE and not (self.job["is_queued"] and more["why"] in TOO_EARLY):
            self.guests.put(self.job["bucket"], f"{self.folder}failed", body, if_generation="0")

    def begin(self):
        """The startup script: the record, the first word, and then the peers."""
        if self.fate.end == "mute":
            self.remove(self.vm.name)
        else:
            self.fence.at_boot(self.after, self.enter)

    def enter(self, says):
        """What the record says at boot."""
        if says == MINE:
            self.fence.while_running(self.after, self.heed)
            self.wait()
        else:
            self.leave(says)

    def heed(self, says):
        """What the record says while it runs: a cancel lets it save."""
        if says == SUPERSEDED:
            self.leave(says)
        else:
            self.end(75, says, None)

    def leave(self, why):
        """It ends at once, and tells that alone."""
        if self.phase == "ended":
            return
        self.is_over = True
        self.guests.truth.rests(self)
        self.tell("ended", why=why, exit_code=64 if why == BOOT else None)
        self.remove(self.vm.name)

    def wait(self):
        self.tell("waiting")
        self.after(2.0, self.prepared)
        self.after(2.0, self.look_around)

    def prepared(self):
        if self.is_over:
            return
        self.tell("running")
        self.meet()

    def meet(self):
        """The ranks run once every agent has come."""
        gang = [self, *self.peers]
        if len(gang) == len(self.job["names"]) and all(
            one.phase == "running" and not one.is_off for one in gang
        ):
            for one in gang:
                one.train()

    def train(self):
        self.trains_since = self.guests.clock.now()
        self.guests.truth.trains(self)
        if self.fate.end in ("done", "fails"):
            first = min([self, *self.peers], key=lambda one: one.rank)
            self.after(first.fate.train_s, self.trained)
        elif self.fate.end == "dies":
            self.after(
                self.fate.train_s / 2,
                lambda: lifecycle.guest_terminated(self.guests.cloud.compute, self.vm) or self.off(),
            )

    def trained(self):
        """Node 0's fate is the job's."""
        first = min([self, *self.peers], key=lambda one: one.rank)
        if first.fate.end == "fails":
            self.end(
                1, "", {"kind": "exception", "message": "boom", "node_rank": 0, "rank": 0, "exit_code": 1}
            )
        elif all(one.fate.end in ("done", "fails") and not one.is_off for one in [self, *self.peers]):
            self.end(0, "", None)

    def look_around(self):
        """What the supervisor asks every ten seconds: the peers, the limit."""
        if self.is_over:
            return
        now, job = self.guests.clock.now(), self.job
        why = ""
        if self.guests.get(job["bucket"], f"{self.folder}failed") is not None:
            why = "peer"
        elif now >= self.deadline:
            why = "max_run_duration"
        elif now > self.booted_at + job["boot_wait_s"] and self.silent():
            why = "absent"
        lost = [one for one in self.peers if one.is_off or one.is_over]
        if why:
            self.end(75 if why != "absent" else 64, why, None)
        elif lost and self.phase == "running":
            cause = {"kind": "node_lost", "message": "gone", "node_rank": lost[0].rank}
            self.after(NOTICED_S, lambda: self.end(69, "", cause))
        else:
            self.after(PEERS_EVERY_S, self.look_around)

    def end(self, code, why, cause):
        """The last word, and then the machine removes itself. Ranks that hang have their grace first."""
        if self.is_over:
            return
        if self.fate.end == "hangs" and not self.is_killed:
            self.is_killed = True
            self.after(GRACE_S, lambda: self.end(code, why, cause))
            return
        self.is_over = True
        self.guests.truth.rests(self, code=code)
        state = "done" if code == 0 else "stopped" if code == 75 else "failed"
        result = {"node_rank": self.rank, "state": state, "exit_code": code, "cause": cause}
        result["ended_at"] = _time(self.guests.clock.now())

        def last():
            if self.phase == "ended":  # superseded while it saved
                return
            self.tell("ended", exit_code=code, why=why, result=result)
            if why in ("absent", "max_run_duration"):
                self.remove_silent()
            self.remove(self.vm.name)

        self.after(self.fate.late_s, last)

    def silent(self):
        """The names of the gang of which there is no word."""
        bucket = self.job["bucket"]
        return [
            name
            for rank, name in enumerate(self.job["names"])
            if self.guests.get(bucket, f"{self.folder}status-{rank}.json") is None
        ]

    def remove_silent(self):
        for name in self.silent():
            self.remove(name)

    def remove(self, name):
        job = self.job
        self.guests.ask(
            "DELETE", f"/compute/v1/projects/{job['project']}/zones/{job['zone']}/instances/{name}"
        )

    def button_pressed(self, grace_s):
        """It goes down: a last word where there is time, and then it is off."""
        vm = self.vm
        if not self.is_over and self.fate.end != "hangs":
            if self.phase == "running":
                self.end(75, "shutdown", None)
            elif self.phase == "waiting":  # no agent has a result
                self.is_over = True
                self.tell("ended", why="halted")

        def halt():
            self.off()
            vm.halted()

        self.after(grace_s, halt)


def _time(seconds):
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
