"""A virtual machine without a userland of its own: this computer's files, behind walls."""

from __future__ import annotations

from gputrain_emulator.live import gcsfuse, standins, vm_metadata
from gputrain_emulator.live.addresses import serve_metadata
from gputrain_emulator.live.gpus import gpus
from gputrain_emulator.live.guest_process import PATH, Guest, Setup
from gputrain_emulator.live.vm import LiveVm
from gputrain_emulator.metadata import MetadataServer

MOUNTS = "/gcs"
"""Where its buckets are mounted at the boot, as nothing inside may mount."""


class StandIn(LiveVm):
    """The machine behind one instance, at an address of this computer."""

    _server: MetadataServer | None = None

    @property
    def address(self) -> str:
        return "" if self._server is None else str(self._server.server_address[0])

    def prepare(self) -> None:
        """Take an address of this computer, which is where it can really be reached."""
        if self._server is None:
            self._server = serve_metadata(self.metadata)
        for interface in self.vm.resource.get("networkInterfaces", ())[:1]:
            interface["networkIP"] = self.address

    def boot(self) -> Guest:
        disk = self.folder / "disk"
        disk.mkdir(exist_ok=True)
        with self.compute.world.lock:
            scripts = vm_metadata.items(self.vm.resource)
            now = self.compute.world.clock.now()
        self.buckets.sync()
        mounted = {f"{MOUNTS}/{one.name}": str(one) for one in self.buckets.path.iterdir() if one.is_dir()}
        replaced = standins.write(self.folder / "standins", gpus=gpus(self.vm.accelerator, self.vm.gpus))
        assert self._server is not None
        host = self._server.host
        known = {"LANG": "C.UTF-8", "GCE_METADATA_HOST": host, "GCE_METADATA_IP": host}
        return Guest(
            Setup(
                kind="vm",
                disk=disk,
                hostname=self.vm.name,
                hosts=self.hosts,
                environment={**self.environment, **known, "PATH": f"{standins.INSIDE}:{PATH}"},
                replaced={**replaced, **mounted, gcsfuse.BUCKETS: str(self.buckets.path)},
                startup_script=scripts.get("startup-script"),
                shutdown_script=scripts.get("shutdown-script"),
                booted_at=now,
            )
        )

    def release(self) -> None:
        if self._server is not None:
            self._server.close()
