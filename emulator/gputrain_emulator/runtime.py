"""What runs the guests: nothing by default, real processes in live mode."""

from __future__ import annotations

from typing import Any


class Runtime:
    """Guests are names only: they run until something is done to them.

    Live mode derives from it. It is told by the services what happens to their guests, under the world's
    lock, so it must not block. ``vm`` is a ``compute.state.Vm``; ``job`` is the Vertex part's job. A runtime
    answers by ``Vm.serial``, ``lifecycle.guest_terminated`` and ``Vm.halted``.
    """

    is_real = False
    """Whether guests report their own end."""

    def boot(self, vm: Any) -> None:
        """The VM has reached RUNNING: power on, run its startup script."""

    def preempt(self, vm: Any) -> None:
        """``preempted`` turns TRUE in the metadata; the ACPI signal follows as ``shut_down``."""

    def maintain(self, vm: Any) -> None:
        """``maintenance-event`` announces the end; the ACPI signal follows as ``shut_down``."""

    def shut_down(self, vm: Any, grace_s: float) -> None:
        """The ACPI power button: SIGTERM now, SIGKILL after ``grace_s``; then ``Vm.halted()``."""

    def power_off(self, vm: Any) -> None:
        """The VM is gone this instant (host error, deleted)."""

    def metadata_changed(self, vm: Any) -> None:
        """instances.setMetadata was committed."""

    def start_job(self, job: Any) -> None:
        """A Vertex job has its machines: start every replica."""

    def stop_job(self, job: Any) -> None:
        """A Vertex job was cancelled or timed out: SIGTERM, then SIGKILL."""

    def close(self) -> None:
        """End everything that still runs."""
