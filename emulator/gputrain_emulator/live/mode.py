"""Live mode: guests are real processes of this computer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from gputrain_emulator import gcloud
from gputrain_emulator.compute.state import Compute, Vm
from gputrain_emulator.folders import OwnFolder, remove
from gputrain_emulator.live import vm_metadata
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.live.guest_process import why_no_walls
from gputrain_emulator.live.job import LiveJob
from gputrain_emulator.live.network import Network
from gputrain_emulator.live.standin import StandIn
from gputrain_emulator.live.userland import Userland, why_no_userland
from gputrain_emulator.live.vm import LiveVm
from gputrain_emulator.runtime import Runtime
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Job, Vertex
from gputrain_emulator.world import Caller, World


class LiveMode(Runtime):
    """A runtime that runs startup scripts and container commands for real.

    A virtual machine needs namespaces of its own, as its script is root's and may say `poweroff`; where the
    kernel refuses them it is not booted, and its serial port says why. A replica is then not started either,
    unless `allow_unconfined`. What comes is run, so from now on the emulator takes its own tokens only.

    Args:
        world: of an emulator with a wall clock.
        hosts: more names that virtual machines find, with their addresses on this computer; a registry's.
        allow_unconfined: where the kernel gives no namespaces, run replicas as ordinary processes of this
            user, with all that this user can reach.
        userland: an image of this computer's Podman that virtual machines boot, with its systemd and
            Google's guest agent; "" for machines that stand in for it, of this computer's own files.

    Raises:
        ValueError: the clock is not the wall's, or the userland cannot be booted here.

    Example:
        >>> import gputrain_emulator
        >>> from gputrain_emulator.live import LiveMode
        >>> with gputrain_emulator.start(wall_clock=True) as cloud:
        ...     cloud.attach(LiveMode(cloud.world))
    """

    def __init__(
        self,
        world: World,
        *,
        hosts: Mapping[str, str] | None = None,
        allow_unconfined: bool = False,
        userland: str = "",
    ) -> None:
        if not world.clock.wall:
            raise ValueError("real processes take real time: start the emulator with wall_clock=True")
        refusal = why_no_userland(userland) if userland else why_no_walls()
        if userland and refusal is not None:
            raise ValueError(f"virtual machines cannot boot {userland}: {refusal}")
        self.world, self._compute = world, world.part(Compute)
        self.hosts = dict(hosts or {})
        self.allow_unconfined = allow_unconfined
        world.callers.lock()
        self._token = world.callers.issue(Caller(email="guest"))
        self.vms: dict[tuple[str, str, str], LiveVm] = {}
        self.jobs: dict[str, LiveJob] = {}
        self._kept = OwnFolder()
        self.folder = self._kept.path
        self.userland = userland
        self._network = Network() if userland else None
        self._refusal = refusal
        self._is_closed = False
        self._burials: list[threading.Thread] = []

    is_real = True

    # what Compute Engine tells

    def boot(self, vm: Vm) -> None:
        if self._refusal is not None:
            note = f"gputrain emulator: the startup script was not run: {self._refusal}\r\n"
            vm.serial.append(note)
        elif not self._is_closed:
            if vm.key not in self.vms:
                self.vms[vm.key] = self._new_vm(vm)
            self.vms[vm.key].power_on()

    def preempt(self, vm: Vm) -> None:
        self._tell(vm, preempted="TRUE")

    def maintain(self, vm: Vm) -> None:
        self._tell(vm, maintenanceEvent="TERMINATE_ON_HOST_MAINTENANCE")

    def shut_down(self, vm: Vm, grace_s: float) -> None:
        if vm.key in self.vms:
            self.vms[vm.key].press_power_button(grace_s)

    def power_off(self, vm: Vm) -> None:
        if vm.key in self.vms:
            self.vms[vm.key].pull_the_plug()
            if vm.dying and not self._is_closed:  # deleted, not merely lost
                live = self.vms.pop(vm.key)
                self._burials = [thread for thread in self._burials if thread.is_alive()]
                self._burials.append(threading.Thread(target=self._bury, args=(live,), name="burial"))
                self._burials[-1].start()

    def metadata_changed(self, vm: Vm) -> None:
        self._tell(vm)

    # what Vertex AI tells

    def start_job(self, job: Job) -> None:
        if self._is_closed:
            return
        live = self.jobs.get(job.id)
        if live is None:
            live = self.jobs[job.id] = LiveJob(
                vertex=self.world.part(Vertex),
                job=job,
                folder=self.folder / f"job-{job.id}",
                shared=self._environment(),
                buckets=self._buckets,
                allow_unconfined=self.allow_unconfined,
            )
        live.start(job.starting)

    def stop_job(self, job: Job) -> None:
        if job.id in self.jobs:
            self.jobs[job.id].stop()

    def close(self) -> None:
        """End every process, wait for it, and remove everything that guests have written."""
        with self.world.lock:
            self._is_closed = True
            vms, jobs = list(self.vms.values()), list(self.jobs.values())
            burials = self._burials
        for vm in vms:
            vm.close()
        for job in jobs:
            job.close()
        for burial in burials:
            burial.join()
        if "_buckets" in vars(self):
            self._buckets.close()
        if self._network is not None:
            self._network.close()
        self._kept.close()

    def _bury(self, live: LiveVm) -> None:
        """End a deleted machine for good: its processes, its address, its disk."""
        live.close()
        with self.world.lock:
            self._write_hosts()
        remove(live.folder)

    def _new_vm(self, vm: Vm) -> LiveVm:
        shared: dict[str, Any] = {
            "compute": self._compute, "vm": vm, "folder": self.folder / f"vm-{vm.resource['id']}",
            "buckets": self._buckets, "environment": self._environment(), "hosts_changed": self._write_hosts,
        }  # fmt: skip
        if self._network is None:
            return StandIn(**shared)
        shown = [urlsplit(self.world.base_url).netloc, *(f"{ip}:80" for ip in self.hosts.values())]
        return Userland(image=self.userland, network=self._network, shown=shown, **shared)

    def _tell(self, vm: Vm, **seen: Any) -> None:
        if vm.key in self.vms:
            self.vms[vm.key].tell(**seen)

    def _write_hosts(self) -> None:
        """Every machine finds every other by its internal DNS name, and its own metadata server."""
        shared = "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in self.hosts.items())
        for live in self.vms.values():
            if address := live.address:
                full = vm_metadata.hostname(live.vm.resource, live.vm.project)
                name = live.vm.name
                shared += f"{address} {full} {name}.c.{live.vm.project}.internal {name}\n"
        for live in self.vms.values():
            address = live.metadata_address
            own = f"{address} metadata.google.internal metadata\n" if address else ""
            live.hosts.write_text(shared + own)

    def _environment(self) -> dict[str, str]:
        """Where the emulated services are, in the variables that Google's own tools read.

        The address holds a token, as Google's storage client sends none to an emulator.
        """
        url = f"{self.world.base_url}/_emulator/as/{self._token}"
        return {
            **gcloud.overrides(url),
            "STORAGE_EMULATOR_HOST": url,
            # Unless told so, gcsfs waits a minute for each bucket to tell its kind over gRPC with TLS.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }

    @cached_property
    def _buckets(self) -> GcsFolder:
        return GcsFolder(self.world.part(Storage), self.folder / "gcs")
