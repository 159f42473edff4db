"""A virtual machine without a userland of its own: this computer's files, behind walls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gputrain_emulator.compute.state import Vm
from gputrain_emulator.live import gcsfuse, standins, vm_metadata
from gputrain_emulator.live.addresses import serve_metadata
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.live.gpus import gpus
from gputrain_emulator.live.guest_process import PATH, Guest, Setup
from gputrain_emulator.metadata import Metadata, MetadataServer
from gputrain_emulator.world import World

MOUNTS = "/gcs"
"""Where its buckets are mounted at the boot, as nothing inside may mount."""


@dataclass(kw_only=True, eq=False)
class StandIn:
    """The computer behind one instance."""

    world: World
    vm: Vm
    folder: Path
    """Its own; the disk in it outlives stops and reboots."""
    hosts: Path
    metadata: Metadata
    buckets: GcsFolder
    environment: Mapping[str, str]
    """What every script sees beside the machine's own variables."""
    _server: MetadataServer | None = None

    def __post_init__(self) -> None:
        (self.folder / "disk").mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """Its loopback address; "" while it has none."""
        return "" if self._server is None else str(self._server.server_address[0])

    metadata_address = address

    def power_on(self) -> None:
        """Take an address of this computer, which is where it can really be reached."""
        if self._server is None:
            self._server = serve_metadata(self.metadata)
        for interface in self.vm.resource.get("networkInterfaces", ())[:1]:
            interface["networkIP"] = self.address

    def boot(self) -> Guest:
        """Start it. Raises GuestError where the kernel refuses."""
        return Guest(self._setup())

    def close(self) -> None:
        """Give up its address."""
        if self._server is not None:
            self._server.close()

    def _setup(self) -> Setup:
        with self.world.lock:
            scripts = vm_metadata.items(self.vm.resource)
            now = self.world.clock.now()
        self.buckets.sync()
        mounted = {f"{MOUNTS}/{one.name}": str(one) for one in self.buckets.path.iterdir() if one.is_dir()}
        replaced = standins.write(self.folder / "standins", gpus=gpus(self.vm.accelerator, self.vm.gpus))
        assert self._server is not None
        return Setup(
            kind="vm",
            disk=self.folder / "disk",
            hostname=self.vm.name,
            hosts=self.hosts,
            environment={
                **self.environment,
                "PATH": f"{standins.INSIDE}:{PATH}",
                "LANG": "C.UTF-8",
                "GCE_METADATA_HOST": self._server.host,
                "GCE_METADATA_IP": self._server.host,
            },
            replaced={**replaced, **mounted, gcsfuse.BUCKETS: str(self.buckets.path)},
            startup_script=scripts.get("startup-script"),
            shutdown_script=scripts.get("shutdown-script"),
            booted_at=now,
        )
