"""A VM of a gang: the steps of its keeper and agent, at the moments at which they take them."""

import json
from datetime import datetime, timezone

from gputrain.keeper.status import SCHEMA, TOO_EARLY, UNABLE
from tests.simulation.fates import fate_of

PEERS_EVERY_S = 10.0
LEAD_S = 30.0
NOTICED_S = 6.0
"""How long the agents need to see that a peer is gone."""


class VmGuest:
    """One VM of a gang."""

    def __init__(self, guests, vm, job):
        self.guests, self.vm, self.job = guests, vm, job
        self.fate = fate_of(guests.seed, vm.name, guests.ends)
        self.rank = job["names"].index(vm.name)
        self.folder = f"{job['folder']}{job['attempt']}/"
        self.nonce = vm.resource["labels"]["gputrain-gang"]
        who = {"node_rank": self.rank, "attempt": job["attempt"], "vm_id": vm.id, "zone": job["zone"]}
        self.status = {"schema": SCHEMA, **who}
        self.is_off = self.is_over = False
        self.booted_at = guests.clock.now()
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
        """The startup script: the lock, the first word, and then the peers."""
        lock = json.dumps({"nonce": self.job["nonce"], "token": self.nonce}).encode()
        bucket, name = self.job["bucket"], f"{self.folder}lock"
        if self.fate.end == "mute":
            self.remove(self.vm.name)
            return
        generation = "0"
        tries = 0
        while not self.guests.put(bucket, name, lock, if_generation=generation):
            generation = self.guests.generation(bucket, name)
            held = json.loads(self.guests.get(bucket, name) or b"{}")
            tries += 1
            if tries > 5 or (held and held["nonce"] != self.job["nonce"]):
                self.remove(self.vm.name)
                return
            if held and "reserved" not in held:
                break
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
        self.guests.truth.trains(self)
        if self.fate.end in ("done", "fails"):
            first = min([self, *self.peers], key=lambda one: one.rank)
            self.after(first.fate.train_s, self.trained)
        elif self.fate.end == "dies":
            self.after(
                self.fate.train_s / 2,
                lambda: self.guests.cloud.compute.guest_terminated(self.vm) or self.off(),
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
        """What the keeper asks every ten seconds: the cancel, the peers, the limit."""
        if self.is_over:
            return
        now, job = self.guests.clock.now(), self.job
        why = ""
        if self.guests.get(job["bucket"], job["cancel"]) is not None:
            why = "cancelled"
        elif self.guests.get(job["bucket"], f"{self.folder}failed") is not None:
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
        """The last word, and then the machine removes itself."""
        if self.is_over or self.fate.end == "hangs":
            return
        self.is_over = True
        self.guests.truth.rests(self, code=code)
        state = "done" if code == 0 else "stopped" if code == 75 else "failed"
        result = {"node_rank": self.rank, "state": state, "exit_code": code, "cause": cause}
        result["ended_at"] = _time(self.guests.clock.now())

        def last():
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
        """Delete those, while the lock is this gang's."""
        held = json.loads(self.guests.get(self.job["bucket"], f"{self.folder}lock") or b"{}")
        if held.get("token") == self.nonce:
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
            self.guests.cloud.compute.halted(vm)

        self.after(grace_s, halt)


def _time(seconds):
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
