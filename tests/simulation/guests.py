"""What runs on the machines, as far as the cloud and the clients see it: the keeper's words on the board.

A guest is no process: it is the steps that the keeper and the agents take, at the moments at which they take
them, and its requests go to the same emulated cloud. `gputrain/keeper` and `gputrain/entrypoint` are the
originals; they have tests of their own, in which they run.
"""

import json
import random
from datetime import datetime, timezone
from urllib.parse import quote, urlencode

import attrs

from gputrain.keeper.status import SCHEMA
from gputrain_emulator.dispatch import Dropped
from gputrain_emulator.exchanges import Request

ACCOUNT = "gputrain@my-project.iam.gserviceaccount.com"
PEERS_EVERY_S = 10.0
LEAD_S = 30.0
NOTICED_S = 6.0
"""How long the agents need to see that a peer is gone."""


@attrs.frozen(kw_only=True)
class Fate:
    """What becomes of one guest by itself."""

    boot_s: float
    train_s: float
    end: str
    """done, fails, dies, hangs: while it trains; mute: it cannot write to the bucket; no boot: never up."""
    late_s: float
    """How late its last word comes."""


def fate_of(seed, name, ends):
    """The fate of the guest of that name: drawn for it alone, so that no other draw changes it."""
    dice = random.Random(f"{seed} guest {name}")
    return Fate(
        boot_s=dice.choice((5.0, 20.0, 60.0)), train_s=dice.choice((15.0, 60.0, 400.0)),
        end=dice.choice(ends), late_s=dice.choice((0.5, 0.5, 30.0)),
    )  # fmt: skip


class Guests:
    """The runtime of the emulated clouds."""

    def __init__(self, cloud, truth, seed, ends):
        self.cloud, self.truth, self.seed, self.ends = cloud, truth, seed, ends
        self.clock = cloud.clock
        self.token = cloud.world.callers.issue(cloud.caller(ACCOUNT))
        self.by_vm = {}
        self.by_job = {}

    def ask(self, verb, target, body=b""):
        """Status and body of a request under the machines' own account."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        try:
            outcome = self.cloud.dispatcher.handle(
                Request(verb=verb, target=target, headers=headers, body=body)
            )
        except Dropped:
            return 0, b""
        return outcome.reply.status, outcome.reply.body

    def put(self, bucket, name, body, *, only_if_absent=False):
        told = {"uploadType": "media", "name": name}
        if only_if_absent:
            told["ifGenerationMatch"] = "0"
        status, _ = self.ask("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(told)}", body)
        return status == 200

    def get(self, bucket, name):
        status, body = self.ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")
        return body if status == 200 else None

    # what the emulator tells its runtime

    def boot(self, vm):
        items = {one["key"]: one["value"] for one in vm.resource.get("metadata", {}).get("items", ())}
        if "gputrain-job" in items:
            self.by_vm[vm.id] = VmGuest(self, vm, json.loads(items["gputrain-job"]))

    def preempt(self, vm):
        pass

    maintain = metadata_changed = preempt

    def shut_down(self, vm, grace_s):
        guest = self.by_vm.get(vm.id)
        if guest is None or guest.is_off:
            self.clock.after(1.0, lambda: self.cloud.compute.halted(vm))
        else:
            guest.button_pressed(min(grace_s, 5.0))

    def power_off(self, vm):
        guest = self.by_vm.get(vm.id)
        if guest is not None:
            guest.off()

    def start_job(self, job):
        self.by_job[job.id] = JobGuest(self, job)

    def stop_job(self, job):
        guest = self.by_job.pop(job.id, None)
        if guest is not None:
            guest.stop()

    def close(self):
        pass


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
        return [
            one
            for one in self.guests.by_vm.values()
            if one.nonce == self.nonce and one.vm.name != self.vm.name
        ]

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
        if more.get("why") in ("absent", "boot", "restarted"):
            self.guests.put(self.job["bucket"], f"{self.folder}failed", body, only_if_absent=True)

    def begin(self):
        """The startup script: the lock, the first word, and then the peers."""
        lock = json.dumps({"zone": self.job["zone"], "token": self.nonce}).encode()
        bucket, name = self.job["bucket"], f"{self.folder}lock"
        if self.fate.end == "mute":
            self.remove(self.vm.name)
            return
        if not self.guests.put(bucket, name, lock, only_if_absent=True):
            held = self.guests.get(bucket, name)
            if held is None or json.loads(held)["zone"] != self.job["zone"]:
                self.remove(self.vm.name)
                return
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
        if not self.is_over and self.phase == "running" and self.fate.end != "hangs":
            self.end(75, "shutdown", None)

        def halt():
            self.off()
            self.guests.cloud.compute.halted(vm)

        self.after(grace_s, halt)


class JobGuest:
    """The containers of one custom job: node 0 takes the lock, and then they train."""

    def __init__(self, guests, job):
        self.guests, self.job = guests, job
        self.fate = fate_of(guests.seed, f"{job.document['displayName']} {job.serial}", guests.ends)
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
            if not self.guests.put(bucket, lock, me, only_if_absent=True):
                held = (self.guests.get(bucket, lock) or b"").decode().partition(" ")
                if held[0] != self.job.id:
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


def _time(seconds):
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
