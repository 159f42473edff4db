"""One VM of a job, from its boot to its end.

It makes sure that this attempt is the one that counts and that the GPUs are there, and runs the node agent,
on the image or in the user's container. Once it has ended, systemd removes its VM. A VM that boots a second
time does not train again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence, Set as AbstractSet
from typing import Any

from . import container, contract, devices, gpu_network, processes
from .cloud import CallFailed, call, metadata
from .contract import ABSENT, BOOT, RESTARTED, RUN_LIMIT, SUPERSEDED, WAITING
from .fence import MINE
from .mounts import Mounts
from .reports import LINES_S, NodeLog, NodeSite, VmReports, right_to
from .supervisor import Failed, Stopped, Supervisor

ROOT = "/var/lib/gputrain"
PROGRAM = os.path.join(ROOT, ".gputrain", "agent.pyz")
"""As the startup script brings it: this very program."""

KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)
"""How docker shows signals: the agent was there, and was killed."""

PYTHONS = ("python3", "/opt/conda/bin/python3", "/opt/venv/bin/python3", "/usr/bin/python3")
PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
LOADER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gputrain.runtime.loader import main; main()"
LEAD_S = 30
"""How long before the limit, counted from here on, ranks are asked to save, where it leaves room for that.
Google counts from the VM's start, and presses its power button then: whichever is first."""


class Vm(NodeSite):
    """A machine with one node of a job. A client starts the whole job again, perhaps elsewhere."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.name = metadata("name")
        self.rank = job["names"].index(self.name)
        self.home = os.path.join(ROOT, job["job_id"], str(job["attempt"]))
        self.data = os.path.join(ROOT, job["job_id"], "data")  # on local SSD, where there is any
        os.makedirs(self.home, exist_ok=True)
        booted = os.path.join(self.home, "booted")
        self.was_here = os.path.exists(booted)
        open(booted, "w").close()
        self.log = NodeLog(self.home, self.rank)
        self.reports: VmReports = VmReports(job, self.rank, self.log)
        super().__init__(self.reports, job["env"])
        self._began = time.monotonic()
        self._mounts = Mounts(job, self.data, self.log)
        self._caches: dict[str, str] = {}
        self._network: dict[str, str] = {}

    def supervisor(self) -> Supervisor:
        """Who looks after this node."""
        who = {"node_rank": self.rank, "vm_id": metadata("id"), "zone": self.job["zone"]}
        return Supervisor(self.reports, self, attempt=0, **who)

    def deadline(self) -> float:
        """A VM bills while it waits."""
        most = float(self.job["max_run_s"])
        return self._began + most - (LEAD_S if most >= 10 * LEAD_S else 0)

    def wait(self, supervisor: Supervisor) -> None:
        """The disks are mounted, the GPUs come up, and what containers and NCCL need is brought."""
        self._pass(supervisor)
        if self.was_here:
            again = "its VM was rebooted, or the unit there restarted: the job starts again as a whole only"
            raise Failed(again, why=RESTARTED)
        supervisor.show(WAITING)
        if devices.mount_local_ssds(supervisor.call, self.data, self.log.say):
            self._caches = {"XDG_CACHE_HOME": os.path.join(self.data, "cache")}
        os.makedirs(os.path.join(self.data, "tmp"), exist_ok=True)
        devices.wait_for_gpus(supervisor, self.job["gpus"], self.job["driver_wait_s"])
        wanted = self.job["fabric"]
        if self.job["image"] or gpu_network.needs_engine(wanted):
            container.prepare(supervisor.call, self.data if self._caches else None, self.log.say)
        if wanted:
            self._network = gpu_network.prepare(supervisor, wanted, self.log.say)

    def _pass(self, supervisor: Supervisor) -> None:
        """Continue as the current attempt. Raises Stopped where it is not, Failed where that is not known."""
        try:
            said = self.reports.fence.at_boot(supervisor.sleep)
        except CallFailed as error:
            raise Failed(f"whether this VM may train cannot be read: {hint(self, error)}") from None
        if said != MINE:
            supervisor.rules.stop = said
            raise Stopped

    def start(self, supervisor: Supervisor, attempt: int) -> dict[int, int]:  # noqa: ARG002  # it is a `Site`
        env = self._environment()
        for variable, name in ((contract.CHECKPOINT_DIR, "checkpoints"), (contract.OUTPUT_DIR, "output")):
            env[variable] = self._mounts.folder(supervisor, self.job[name])
        image, own = self.job["image"], self.job.get("as_it_is")
        if own:
            env = self._run_as_it_is(own, env)
        order = os.path.join(self.home, "order.json")
        with open(os.open(order, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self.job["order"], file)
        argv = ["-c", LOADER, PROGRAM, order]
        if image:
            self.log.say(f"pulling {image}")
            container.fetch(image, supervisor.call)
        if image and not own:
            command = container.words(image, self.job["python"], argv, env, ROOT, self.home)
            env = {}
        else:
            command = [self._python(supervisor), *argv]
        return self.run_agent(supervisor, command, {**os.environ, **env}, self.home)

    def _run_as_it_is(self, own: Any, env: dict[str, str]) -> dict[str, str]:
        """Have the agent run the image; the environment of the agent, which is outside."""
        kept = contract.CHECKPOINT_DIR, contract.OUTPUT_DIR
        job, asked = self.job, {**self._network, **self.job["env"]}
        values = {name: asked[name] for name in asked if not name.startswith("GPUTRAIN_")}
        given = {*kept, contract.NODE_RANK, contract.MASTER_ADDR, *job["order"]["secrets"], *asked}
        names = sorted(given - set(values))
        job["order"]["argv"] = container.as_it_is(job["image"], own, values, names)
        return {name: value for name, value in env.items() if name not in values}

    def has_a_result(self) -> bool:
        """A process stuck in the driver keeps its container, and docker with it, after the agent has gone."""
        return self.reports.result() is not None

    def spared(self) -> AbstractSet[int]:
        """What the ranks wrote last still goes into the bucket; not beside another attempt."""
        return frozenset() if self.reports.wants() == SUPERSEDED else self._mounts.pids

    def finish(self, supervisor: Supervisor) -> dict[str, Any]:
        if supervisor.rules.stop == SUPERSEDED:
            if self.agent and self.job["image"]:
                container.kill()
            return {}
        if self.agent and self.job.get("as_it_is"):
            container.kill()  # docker's own process may have been killed beside it
        ending = supervisor.endings.get(self.agent)
        self._mounts.end(supervisor)
        found = {"result": self.reports.result()}
        if ending is None:
            return found
        self.lines.join(LINES_S)
        found["result"] = found["result"] or self.reports.result()
        code = ending.exit_code
        if code == contract.BAD_ENVIRONMENT and found["result"] and not supervisor.rules.stop:
            return {**found, "why": BOOT}  # the agents of other nodes may wait for this one's
        if code and code not in KILLED and not supervisor.rules.stop and found["result"] is None:
            where = "python3 of {}".format(self.job["image"]) if self.job["image"] else "the boot image"
            said = self.log.last.decode("utf-8", "replace").strip()[-2000:]
            raise Failed(f"the node agent did not start with {where}, exit code {code}: {said}")
        return found

    def _environment(self) -> dict[str, str]:
        """The user's variables, and this node's rank among all nodes."""
        job, address = self.job, metadata("network-interfaces/0/ip")
        own = {
            contract.ATTEMPT: job["attempt"],
            contract.RUN_DIR: "{storage}/{bucket}/{folder}{attempt}/".format(**job),
            contract.NODE_RANK: str(self.rank),
            contract.NODE_NAMES: ",".join(job["names"]),
            contract.LOCAL_ADDR: address,
            contract.RESULT_DIR: self.reports.results,
            "TMPDIR": os.path.join(self.data, "tmp"),
        }
        host = {name: os.environ[name] for name in ("GCE_METADATA_HOST",) if name in os.environ}
        return {**host, **self._caches, **self._network, **job["env"], **own}

    def _python(self, supervisor: Supervisor) -> str:
        """A Python that has torch, or else any."""
        if self.job["python"]:
            return str(self.job["python"])
        found = [path for path in map(shutil.which, PYTHONS) if path]
        return next((path for path in found if supervisor.call([path, "-c", PROBE])[0] == 0), found[0])


def remove(job: Any, name: str, accept: Sequence[int] = ()) -> None:
    """Delete a VM of this job. Raises CallFailed for a status that is not in ``accept``."""
    there = "{compute}/compute/v1/projects/{project}/zones/{zone}/instances/".format(**job)
    call("DELETE", there + name, accept=accept)


def remove_silent(vm: Vm) -> None:
    """Delete the nodes of this job that never reported.

    Google's limit counts from a VM's start and is cleared when it halts: one that a lost host halted before
    it ran bills for its disk for ever, and only its peers may still know of it.
    """
    silent = []
    try:
        silent = [name for name in vm.reports.silent() if name != vm.name]
    except (OSError, ValueError) as error:  # a bucket may answer anything
        vm.log.say(f"a node that never said a word may be left: {error}", "WARNING")
    for name in silent:
        try:
            remove(vm.job, name, accept=(404,))  # another peer was first
            vm.log.say(f"{name} never said a word: it is deleted", "NOTICE")
        except (OSError, ValueError) as error:  # noqa: PERF203  # one that stays keeps no other
            vm.log.say(f"{name}, which never said a word, may be left: {error}", "WARNING")


def hint(vm: Vm, error: OSError) -> str:
    """A fault of the bucket, and what may be behind it."""
    right = right_to(vm.job)
    return f"{error}: is there Private Google Access or Cloud NAT, and has the VM's account {right}?"


def run(vm: Vm) -> None:
    """Run this node to its end."""
    supervisor = vm.supervisor()
    try:
        supervisor.run()
    except Exception:  # noqa: BLE001  # a fault of the supervisor's own is reported, and ends the VM as any end does
        supervisor.crashed()
    if supervisor.rules.stop in (ABSENT, RUN_LIMIT):  # the client that cancels deletes by itself
        remove_silent(vm)


def main() -> None:
    """Run this node; with the word ``remove``, which systemd says once the unit has ended, delete its VM."""
    if sys.argv[1:] == ["remove"]:
        remove(json.loads(metadata("attributes/gputrain-job")), metadata("name"), accept=(400, 404))
        return
    processes.hold_signals()
    processes.adopt_orphans()
    try:
        vm = Vm(json.loads(metadata("attributes/gputrain-job")))
    except Exception as error:  # noqa: BLE001  # whichever it is: systemd powers off what fails
        sys.exit(f"gputrain: this VM cannot tell what its job is, and powers off: {error!r}")
    try:
        run(vm)
    except OSError as error:
        vm.log.say(f"the bucket cannot be reached: {hint(vm, error)}", "ERROR")


if __name__ == "__main__":
    main()
