"""One schedule, lived: the clouds, the guests and the clients, from the first request to the last bill."""

import dataclasses
import random

from gputrain.jobstore import from_json
from gputrain_emulator.faults import named
from tests.simulation import substitutes
from tests.simulation.bystanders import Bystanders
from tests.simulation.clients import Client, job_id_of
from tests.simulation.cloud import new_cloud
from tests.simulation.endings import CLIENT, judge_change, judge_end
from tests.simulation.guests import Guests
from tests.simulation.laws import billable, judge_after, judge_at_rest, judge_seen, judge_told
from tests.simulation.lives import Lives
from tests.simulation.truth import Truth
from tests.simulation.turns import Turns
from tests.simulation.wire import Wire

SOON_S = 120.0
SETTLES_S = 1500.0
"""After the last client has ended: guests that wait for a peer, and VMs on their way out, come to an end."""

MACHINE = "g2-standard-4"
AGAIN_S = 10.0
NEVER_S = 30 * 86400.0


class World:
    """What one schedule needs."""

    def __init__(self, schedule, script):
        self.schedule = schedule
        self.cloud = cloud = new_cloud()
        self.truth = Truth(cloud.clock)
        self.turns = Turns(cloud.clock, self.dice_of("turns"))
        self.wire = Wire(cloud, self.dice_of("wire"))
        self.owners_token = cloud.world.callers.issue(cloud.owner)
        self.token = cloud.world.callers.issue(cloud.caller(CLIENT))
        self.wire.on_upload = self._judge_upload
        self.uris = []
        self.spec = _spec(schedule, script)
        self.job_id = job_id_of(self.spec)
        cloud.world.ledger = Lives(cloud.world, self.job_id, lambda *end: judge_end(self, *end))
        self._arrange()
        self.guests = Guests(cloud, self.truth, schedule.seed, schedule.ends)
        cloud.attach(self.guests)
        self.bystanders = Bystanders(cloud, self.job_id, self.owners_token)
        self.clients = [Client(self, plan) for plan in schedule.clients]

    def dice_of(self, name):
        return random.Random(f"{self.schedule.seed} {name}")

    def _arrange(self):
        cloud, schedule = self.cloud, self.schedule
        for bucket in ("my-bucket", "other-bucket"):
            cloud.add_bucket(bucket)
        cloud.settings(
            provision_s=2.0, staging_s=3.0, rollback_s=15.0 if schedule.rolls_back else NEVER_S,
            list_lag_s=schedule.lag_s, flex_false_starts=schedule.false_starts,
        )  # fmt: skip
        for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
            cloud.quota(metric, schedule.quota)
        for metric in (
            "custom_model_training_nvidia_l4_gpus",
            "custom_model_training_preemptible_nvidia_l4_gpus",
        ):
            cloud.vertex.set_limit(metric, schedule.quota, region="*")
        cloud.vertex.settings = dataclasses.replace(
            cloud.vertex.settings, provision_s=10.0, start_s=2.0, error_delay_s=20.0, capacity_retry_s=20.0
        )
        for zone, count in schedule.stock:
            cloud.stock(zone, MACHINE, count)
        for one in schedule.mishaps:
            self.wire.mishaps.append(one)
        self.wire.lag = named("lag", seconds=schedule.lag_s) if schedule.lag_s else None

    @property
    def is_withdrawn(self):
        """Whether nothing is there of the job, and its record says so."""
        record = self.record
        is_known = record is not None and not (record.has_ended and not record.has_job)
        return not is_known and not billable(self, and_queue=True)

    @property
    def record(self):
        """The job's record as it is now; None where there is none."""
        name = f"team/records/{self.job_id}.json"
        found = self.cloud.storage.objects.buckets.get("my-bucket").live.get(name)
        return None if found is None else from_json(self.job_id, found.content.read())

    def _judge_upload(self, do):
        before, reply = self.record, do()
        if (after := self.record) != before:
            judge_change(self, before, after)
        return reply

    def live(self):
        """Run it to its end."""
        substitutes.turns, substitutes.carry = self.turns, self.wire.carry
        began_at = self.began_at = self.cloud.clock.now()
        try:
            for client in self.clients:
                client.start()
            for one in self.schedule.happenings:
                self.cloud.clock.at(began_at + one.at_s, lambda one=one: self._happen(one))
            self.turns.run()
            self.cloud.clock.advance(SOON_S)
            judge_seen(self)
            self.cloud.clock.advance(SETTLES_S)
            judge_told(self)
            judge_at_rest(self)
            self.cloud.clock.advance(self.schedule.limit_s + SETTLES_S)
            judge_after(self)
        finally:
            substitutes.turns = None
            self.cloud.close()

    def _happen(self, one):
        """Something befalls somebody."""
        client = next((client for client in self.clients if client.plan.name == one.client), None)
        if client is None and one.client:  # a schedule that is cut down
            return
        if one.kind == "kill":
            client.process.kill()
        elif one.kind == "ctrl-c":
            client.process.interrupt()
        elif one.kind == "clock jumps":
            client.process.clock_off_s += one.seconds
        elif one.kind == "room":
            for zone, _ in self.schedule.stock:
                self.cloud.stock(zone, MACHINE, None)
        elif one.kind in ("delete group", "cancel request"):
            self._withdraw(one)
        else:
            self._strike(one)

    def _strike(self, one):
        """A machine is taken, lost, or deleted by a person."""
        kinds = {"preempt": ("SPOT",)}.get(one.kind, ("SPOT", "STANDARD", "FLEX_START"))
        vms = [
            vm for vm in self.cloud.compute.vms.values() if vm.model in kinds and not self.bystanders.own(vm)
        ]
        if not vms:  # it comes once there is one
            if self.turns.tasks:
                self.cloud.clock.after(AGAIN_S, lambda: self._strike(one))
            return
        vm = sorted(vms, key=lambda vm: vm.name)[int(one.pick * len(vms))]
        if one.kind == "preempt":
            self.cloud.preempt(vm.path, to_stock=True)
        elif one.kind == "host error":
            self.cloud.host_error(vm.path)
        else:
            self.bystanders.ask("DELETE", f"/compute/v1/{vm.path}")

    def _withdraw(self, one):
        """A person deletes the group of a job that waits or runs, or cancels its request."""
        waits = one.kind == "cancel request"
        found = sorted(
            self.cloud.compute.queued if waits else self.cloud.compute.resources["instanceGroupManagers"]
        )
        if not found:
            if self.turns.tasks:
                self.cloud.clock.after(AGAIN_S, lambda: self._withdraw(one))
            return
        path = found[int(one.pick * len(found))]
        verb, words = ("POST", f"{path}/cancel") if waits else ("DELETE", path)
        self.bystanders.try_to(verb, f"/compute/v1/{words}")


def _spec(schedule, script):
    spec = {
        "script": script, "gpu": "L4:1", "num_nodes": schedule.nodes, "provisioning_model": schedule.model,
        "max_run_duration": f"{schedule.limit_s}s", "max_restarts": schedule.restarts,
    }  # fmt: skip
    if schedule.wait_s:
        spec["max_wait_duration"] = f"{schedule.wait_s}s"
    return spec
