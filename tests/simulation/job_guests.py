"""The containers of one custom job, in the steps that they take."""

import json

from tests.simulation.bystanders import JOBS
from tests.simulation.fates import fate_of


class JobGuest:
    """The containers of one custom job: node 0 takes the lock, and then they train."""

    def __init__(self, guests, job):
        self.guests, self.job = guests, job
        self.fate = fate_of(guests.seed, f"{job.document['displayName']} {job.serial - JOBS}", guests.ends)
        self.is_off = False
        spec = job.document["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
        self.order = next((json.loads(one) for one in spec.get("args", ()) if one.startswith("{")), {})
        self.nonce = job.document.get("labels", {}).get("gputrain-gang", "")
        self.after(1.0, self.begin)

    def after(self, seconds, step):
        self.guests.clock.after(seconds, lambda: None if self.is_off else step())

    def begin(self):
        bucket, lock = self.order.get("bucket"), self.order.get("lock")
        if bucket and lock:
            me = self.job.id.encode()
            if not self.guests.put(bucket, lock, me, if_generation="0"):
                held = (self.guests.get(bucket, lock) or b"").decode().partition(" ")
                if held[0] != self.job.id:
                    self.guests.put(bucket, f"{lock}-idle-{self.job.id}", b"")
                    self.exit(0)
                    return
                count = int(held[2] or 0) + 1
                self.guests.put(bucket, lock, f"{self.job.id} {count}".encode())
        self.guests.truth.trains(self)
        if self.fate.end == "done":
            self.after(self.fate.train_s, lambda: self.exit(0))
        elif self.fate.end in ("fails", "dies", "mute"):
            self.after(self.fate.train_s, lambda: self.exit(1))

    def exit(self, code):
        self.is_off = True
        self.guests.truth.rests(self, code=code)
        vertex, job = self.guests.cloud.vertex, self.job
        for replica in reversed(job.replicas):
            vertex.replica_exited(job, replica, code)

    def stop(self):
        if not self.is_off:
            self.is_off = True
            self.guests.truth.rests(self)
        self.guests.clock.after(2.0, lambda: self.guests.cloud.vertex.all_replicas_gone(self.job))
