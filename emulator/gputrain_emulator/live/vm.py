"""One live virtual machine: real processes behind an instance, through all its boots."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gputrain_emulator.compute import lifecycle
from gputrain_emulator.compute.state import Compute, Vm
from gputrain_emulator.live import vm_metadata
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.live.guest_process import EXIT_REBOOT, Guest, GuestError
from gputrain_emulator.live.machine_boot import Boot
from gputrain_emulator.metadata import Account, Metadata


class _Session:
    """From power on to power off: one or more boots."""

    def __init__(self) -> None:
        self.guest: Guest | Boot | None = None
        self.thread: threading.Thread | None = None
        self.asked_down = False
        self.is_cut = False
        self.silent = False
        self.ended = False
        self.trouble: OSError | None = None

    def take(self, guest: Guest | Boot) -> None:
        """A boot has begun; what was asked meanwhile is passed on."""
        self.guest = guest
        if self.is_cut:
            guest.pull_the_plug()
        elif self.asked_down:
            guest.press_power_button()

    def cut(self) -> None:
        """Kill every process."""
        self.is_cut = True
        if self.guest is not None:
            self.guest.pull_the_plug()


class LiveVm(ABC):
    """The machine behind one instance. Public methods are called under the world's lock and do not block.

    Args:
        folder: its own; what lies in it outlives stops and reboots.
        buckets: the folder that its buckets are.
        environment: what every script sees beside the machine's own variables.
        hosts_changed: called when the machine's address becomes known.
    """

    def __init__(
        self,
        compute: Compute,
        vm: Vm,
        *,
        folder: Path,
        buckets: GcsFolder,
        environment: Mapping[str, str],
        hosts_changed: Callable[[], None],
    ) -> None:
        self.compute, self.vm, self.folder = compute, vm, folder
        self.buckets, self.environment = buckets, environment
        self.hosts = folder / "hosts"
        self.seen: dict[str, Any] = {}
        self.metadata = Metadata(read=self._tree, accounts=self._accounts())
        self._hosts_changed = hosts_changed
        self._session: _Session | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.hosts.touch()

    @property
    @abstractmethod
    def address(self) -> str:
        """Where other machines find it; "" before it is powered on."""

    @property
    def metadata_address(self) -> str:
        """Where it finds its metadata server itself."""
        return self.address

    def prepare(self) -> None:  # noqa: B027 - one kind has nothing to do
        """What has to be known before it boots. Called under the world's lock."""

    @abstractmethod
    def boot(self) -> Guest | Boot:
        """Start it. Raises GuestError where it is refused, OSError where the kernel does so."""

    @abstractmethod
    def release(self) -> None:
        """Give up what it holds; it is off."""

    def power_on(self) -> None:
        """Boot; a machine that runs already keeps running."""
        before = self._session
        if before is not None and not before.ended and not before.asked_down:
            return
        self.seen = {}
        self._session = session = _Session()
        try:
            self.prepare()
            self._hosts_changed()
        except OSError as error:
            session.trouble = error
        session.thread = threading.Thread(
            target=self._live, args=(session, before), name=f"vm {self.vm.name}", daemon=True
        )
        session.thread.start()

    def tell(self, **seen: Any) -> None:
        """Show `preempted`, `maintenanceEvent`, ... on the metadata server from now on."""
        self.seen.update(seen)
        self.metadata.changed()

    def press_power_button(self, grace_s: float) -> None:
        """ACPI G2: the shutdown script, SIGTERM to everything inside, SIGKILL after the grace."""
        session = self._session
        if session is None or session.ended:
            return
        session.asked_down = True
        if session.guest is not None:
            session.guest.press_power_button()
        self.compute.world.clock.after(grace_s, session.cut)

    def pull_the_plug(self) -> None:
        """Every process of it is killed now, and nobody is told."""
        if self._session is not None:
            self._session.silent = self._session.asked_down = True
            self._session.cut()

    def close(self) -> None:
        """End it, and wait until nothing of it is left. Called without the world's lock."""
        self.pull_the_plug()
        if self._session is not None and self._session.thread is not None:
            self._session.thread.join()
        self.release()

    def _live(self, session: _Session, before: _Session | None) -> None:
        """Boot after boot, in a thread of its own, until the machine is off."""
        if before is not None and before.thread is not None:
            before.thread.join()
        while not session.is_cut:
            try:
                if session.trouble is not None:
                    raise session.trouble
                guest = self.boot()
            except (GuestError, OSError) as error:
                self._print(f"gputrain emulator: this machine cannot be brought up: {error}\r\n")
                break
            session.take(guest)
            while data := guest.stdout.read1(65536):
                self._print(data)
            status = guest.wait()
            session.guest = None
            guest.close()
            if status != EXIT_REBOOT or session.asked_down:
                break
        with self.compute.world.lock:
            session.ended = True
            if not session.silent and self._session is session:
                if session.asked_down:
                    self.vm.halted()
                else:
                    lifecycle.guest_terminated(self.compute, self.vm)
            self.compute.world.clock.changed()

    def _print(self, data: bytes | str) -> None:
        with self.compute.world.lock:
            self.vm.serial.append(data)
            self.compute.world.clock.changed()

    def _tree(self) -> Mapping[str, Any]:
        project = self.compute.world.projects[self.vm.project]
        with self.compute.world.lock:
            return vm_metadata.tree(
                self.vm.resource, project=project.id, number=project.number, seen=self.seen
            )

    def _accounts(self) -> dict[str, Account]:
        rows = self.vm.resource.get("serviceAccounts", ())
        found = {}
        for row in rows:
            email = row["email"]
            if email == "default":
                number = self.compute.world.projects[self.vm.project].number
                email = f"{number}-compute@developer.gserviceaccount.com"
            found[email] = account(self.compute.world, email, tuple(row.get("scopes", ())))
        return found


def account(world: Any, email: str, scopes: tuple[str, ...]) -> Account:
    """A service account whose tokens the emulated cloud takes."""

    def mint() -> tuple[str, int]:
        with world.lock:
            caller = world.callers.by_email.get(email) or world.callers.add(email)
            return world.callers.issue(caller), 3599

    return Account(email=email, scopes=scopes, mint=mint)
