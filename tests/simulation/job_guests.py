"""The containers of one custom job, in the steps that they take."""

import json

from gputrain.runtime import contract
from gputrain.runtime.contract import BOOT
from gputrain.runtime.fence import CANCELLED, MINE
from tests.simulation.bystanders import JOBS
from tests.simulation.fates import fate_of
from tests.simulation.fences import GuestFence, attempt_of
from tests.simulation.vm_guests import GRACE_S


class JobGuest:
    """The containers of one custom job: node 0 takes the claim, and then they train."""

    def __init__(self, guests, job):
        self.guests, self.job = guests, job
        self.fate = fate_of(guests.seed, f"{job.document['displayName']} {job.serial - JOBS}", guests.ends)
        self.is_off = False
        spec = job.document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
        self.order = next((json.loads(one) for one in spec.get("args", ()) if one.startswith("{")), {})
        self.nonce = attempt_of(job.document.get("labels", {}))
        env = {one["name"]: one["value"] for one in spec.get("env", ())} | self.order.get("env", {})
        self.claim = env[contract.CLAIM]
        self.fence = GuestFence(guests, self.order["bucket"], env[contract.RECORD], env[contract.ATTEMPT_ID])
        self.after(1.0, self.begin)

    def after(self, seconds, step):
        self.guests.clock.after(seconds, lambda: None if self.is_off else step())

    def begin(self):
        self.fence.at_boot(self.after, self.enter)

    def enter(self, says):
        """What the record says at boot; of two jobs of one attempt the first claims it."""
        me, bucket = self.job.id.encode(), self.order["bucket"]
        if says != MINE:
            self.exit(64 if says == BOOT else 0, trained=None)
        elif (
            self.guests.put(bucket, self.claim, me, if_generation="0")
            or self.guests.get(bucket, self.claim) == me
        ):
            self.fence.while_running(self.after, self.heed)
            self.train()
        else:
            self.exit(0, trained=None)

    def heed(self, says):
        """The record says that it is to leave: with 0, or it would be started again."""
        wait_s = GRACE_S if says == CANCELLED and self.fate.end == "hangs" else 0.0
        self.after(wait_s, lambda: self.exit(0, trained=75 if says == CANCELLED else None))

    def train(self):
        self.guests.truth.trains(self)
        if self.fate.end == "done":
            self.after(self.fate.train_s, lambda: self.exit(0, trained=0))
        elif self.fate.end in ("fails", "dies", "mute"):
            self.after(self.fate.train_s, lambda: self.exit(1, trained=1))

    def exit(self, code, trained):
        """End with a code, and what the ranks ended with."""
        self.is_off = True
        self.guests.truth.rests(self, code=trained)
        vertex, job = self.guests.cloud.vertex, self.job
        for replica in reversed(job.replicas):
            vertex.replica_exited(job, replica, code)

    def stop(self):
        if not self.is_off:
            self.is_off = True
            self.guests.truth.rests(self)
        self.guests.clock.after(2.0, lambda: self.guests.cloud.vertex.all_replicas_gone(self.job))
