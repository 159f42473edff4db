"""What runs on the machines, as far as the cloud and the clients see it: the supervisor's words on the board.

A guest is no process: it is the steps that the supervisor and the agents take, at the moments at which they
take them, and its requests go to the same emulated cloud. `gputrain/runtime` is the original; it has tests
of its own, in which it runs.
"""

import json
from urllib.parse import quote, urlencode

from gputrain_emulator.dispatch import Dropped
from gputrain_emulator.exchanges import Request
from gputrain_emulator.runtime import Runtime
from tests.simulation.bystanders import is_theirs
from tests.simulation.job_guests import JobGuest
from tests.simulation.vm_guests import VmGuest

ACCOUNT = "gputrain@my-project.iam.gserviceaccount.com"


class Guests(Runtime):
    """The runtime of the emulated clouds."""

    is_real = True

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

    def put(self, bucket, name, body, *, if_generation=""):
        told = {"uploadType": "media", "name": name}
        if if_generation:
            told["ifGenerationMatch"] = if_generation
        status, _ = self.ask("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(told)}", body)
        return status == 200

    def get(self, bucket, name):
        status, body = self.ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")
        return body if status == 200 else None

    def generation(self, bucket, name):
        status, body = self.ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}")
        return json.loads(body)["generation"] if status == 200 else "0"

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
            self.clock.after(1.0, vm.halted)
        else:
            guest.button_pressed(min(grace_s, 5.0))

    def power_off(self, vm):
        guest = self.by_vm.get(vm.id)
        if guest is not None:
            guest.off()

    def start_job(self, job):
        if not is_theirs(job):  # which trains for as long as anybody looks
            self.by_job[job.id] = JobGuest(self, job)

    def stop_job(self, job):
        guest = self.by_job.pop(job.id, None)
        if guest is not None:
            guest.stop()

    def close(self):
        pass
