"""What this node's ranks and GPUs use: one line every 15 s, for programs, beside what the ranks write.

Of the GPUs one nvidia-smi tells that runs as long as the ranks, and what their driver says when one of them
fails. Fields that a driver does not know fail a whole query, so they are asked for first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import time

from . import contract, host, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

EVERY_S = 15
ASK_S, FAULT_S = 20.0, 5.0
"""How long nvidia-smi may take for what it knows, and for what it sees now, for which the gang waits."""

FIELDS = {
    "utilization.gpu": "busy",
    "memory.used": "memory_mib",
    "power.draw": "watts",
    "temperature.gpu": "celsius",
}
"""Field -> our word for it; in percent of the time, MiB, W and degrees Celsius."""

_UUID, _BUS = "uuid", "pci.bus_id"
_REASONS, _OLD_REASONS = "clocks_event_reasons.active", "clocks_throttle_reasons.active"
_ECC, _REMAP, _ACTION = (
    "ecc.errors.uncorrected.volatile.total", "remapped_rows.failure", "gpu_recovery_action",
)  # fmt: skip
_THROTTLED = 8 | 32 | 64 | 128
"""HW slowdown, SW and HW thermal, HW power brake. Source: nvidia-ml-py's constants, read 2026-11-22."""

_NO_FAULT = ("", "none", "no", "0", "n/a", "not supported")

XIDS = {
    46: "a GPU stopped processing", 48: "a double-bit memory error", 62: "a GPU's controller halted",
    64: "a memory row could not be remapped", 74: "an NVLink error", 79: "a GPU has fallen off the bus",
    95: "an uncontained memory error", 119: "the GPU's system processor did not answer",
    120: "the GPU's system processor failed", 140: "an unrecovered memory error",
}  # fmt: skip
"""Xids after which a GPU has to be reset or replaced, but for those that a script can cause. Source: NVIDIA's
Xid catalog (docs.nvidia.com/deploy/xid-errors), by general knowledge, 2026-11-22."""

_XID = re.compile(rb"NVRM: Xid \(([^)]*)\): (\d+)")

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Gauges:
    """Samples while ranks run. `write` takes a line of the agent's own."""

    def __init__(self, node_rank: int, write: Callable[[bytes], None], every_s: int = EVERY_S) -> None:
        self._node_rank = node_rank
        self._write = write
        self._every_s = every_s
        self._gpus: Optional[GpuWatch] = None
        self._look_at = float("inf")
        self._sampled_at = self._cpu_s = self._busy_s = self._gpu_s = 0.0

    def begin(self, selector: selectors.BaseSelector, environ: Mapping[str, str]) -> None:
        self._gpus = GpuWatch(selector, environ, self._every_s)
        self._sampled_at = time.monotonic()
        self._look_at = self._sampled_at + self._every_s

    def deadline(self) -> float:
        return self._look_at

    def look(self, sessions: Sequence[int]) -> str:
        """Write the line that is due, of these sessions; why the machine is at fault, if so."""
        now = time.monotonic()
        if self._gpus is None or now < self._look_at:
            return ""
        self._look_at = now + self._every_s
        self._write(contract.GAUGE_MARKER.encode() + json.dumps(self._sample(now, sessions)).encode())
        return self._gpus.fault()

    def fault_now(self) -> str:
        return "" if self._gpus is None else self._gpus.fault_now()

    def end(self) -> None:
        self._look_at = float("inf")
        if self._gpus is not None:
            self._gpus.close()

    def _sample(self, now: float, sessions: Sequence[int]) -> Dict[str, Any]:
        assert self._gpus is not None
        passed_s, self._sampled_at = now - self._sampled_at, now
        cpu_s, pages = host.usage_of(sessions)
        # Processes that ended took their seconds with them: what is left never counts backwards.
        cores = max(0.0, cpu_s / _TICKS - self._cpu_s) / passed_s
        self._cpu_s = cpu_s / _TICKS
        gpus: List[Dict[str, float]] = [self._gpus.latest[number] for number in sorted(self._gpus.latest)]
        self._busy_s += passed_s * sum(one.get("busy", 0.0) for one in gpus) / 100
        self._gpu_s += passed_s * len(gpus)
        return {
            "time": round(time.time(), 3),
            "node": self._node_rank,
            "cpu_cores": round(cores, 3),
            "memory_mib": pages * _PAGE >> 20,
            "gpus": gpus,
            "busy_s": round(self._busy_s, 1),
            "gpu_s": round(self._gpu_s, 1),
        }


class GpuWatch:
    """The GPUs that the ranks of this node may use; none where there is no nvidia-smi."""

    def __init__(
        self, selector: selectors.BaseSelector, environ: Mapping[str, str], every_s: int = EVERY_S
    ) -> None:
        self.latest: Dict[int, Dict[str, float]] = {}
        """The last sample of each, in nvidia-smi's order."""
        self._selector = selector
        visible = environ.get("CUDA_VISIBLE_DEVICES")
        self._which = ["-i", visible] if visible else []
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._asked: List[str] = []
        self._uuids: Dict[str, int] = {}
        self._errors: Dict[str, str] = {}
        self._text = b""
        self._fault = ""
        self._is_stuck = False
        self._kernel = -1
        self._buses: List[str] = []
        if visible != "":
            self._begin(every_s)

    def _begin(self, every_s: int) -> None:
        with contextlib.suppress(OSError):
            known = processes.output_of(["nvidia-smi", "--help-query-gpu"], ASK_S).decode("utf-8", "replace")
            wanted = [_UUID, _BUS, *FIELDS, _REASONS, _OLD_REASONS, _ECC, _REMAP, _ACTION]
            self._asked = [one for one in wanted if f'"{one}"' in known]
            if _UUID in self._asked:
                self._kernel = _open_kernel_log()
                self._process = subprocess.Popen(
                    [*self._query(), "-l", str(every_s)],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                assert self._process.stdout
                os.set_blocking(self._process.stdout.fileno(), False)
                self._selector.register(self._process.stdout, selectors.EVENT_READ, lambda _: self._read())

    def _query(self) -> List[str]:
        words = ["nvidia-smi", f"--query-gpu={','.join(self._asked)}", "--format=csv,noheader,nounits"]
        return words + self._which

    def _read(self) -> None:
        assert self._process and self._process.stdout  # noqa: PT018
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self._process.stdout.fileno(), 1 << 16)
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"))
        if not data:
            self._selector.unregister(self._process.stdout)

    def _take(self, line: str, has_failed: bool = False) -> None:
        """One GPU's line, or the words of a driver that has lost one."""
        if "GPU is lost" in line or "fallen off the bus" in line:
            self._blame(f"nvidia-smi says: {line.strip()[:200]}")
        told = dict(zip(self._asked, (value.strip().strip("[]") for value in line.split(","))))
        if len(told) < len(self._asked) or not told[_UUID].startswith(("GPU-", "MIG-")):
            return
        if told[_UUID] not in self._uuids:
            self._uuids[told[_UUID]] = len(self._uuids)
            self._buses.append(told.get(_BUS, "").lower())
        number = self._uuids[told[_UUID]]
        numbers = {name: _number(told.get(field)) for field, name in FIELDS.items()}
        sample = {name: value for name, value in numbers.items() if value >= 0}
        reasons = told.get(_REASONS) or told.get(_OLD_REASONS) or ""
        with contextlib.suppress(ValueError):
            sample["throttled"] = float(bool(int(reasons, 16) & _THROTTLED))
        self.latest[number] = sample
        self._judge(number, told, has_failed)

    def _judge(self, number: int, told: Dict[str, str], has_failed: bool) -> None:
        """Whether its driver says that it has failed since the ranks began."""
        for field in (_ECC, _REMAP, _ACTION):
            now = told.get(field, "").lower()
            before = self._errors.setdefault(f"{number} {field}", now)
            # What stood there before is the machine's past, as long as the ranks live with it.
            if has_failed and field == _ACTION:
                before = "none"
            if now != before and now not in _NO_FAULT:
                self._blame(f"GPU {number} ({told[_UUID]}): {field} went from {before} to {now}")

    def fault(self) -> str:
        """Why the machine is at fault, if its driver has said so."""
        self._read_kernel_log()
        return self._fault

    def fault_now(self) -> str:
        """The same, with the driver asked anew: a rank may have failed of it."""
        if self._process is not None and not self._is_stuck and not self.fault():
            self._is_stuck = True  # a driver that is holds up no rank's end a second time
            with contextlib.suppress(OSError):
                told = processes.output_of(self._query(), FAULT_S)
                self._is_stuck = False
                for line in told.decode("utf-8", "replace").splitlines():
                    self._take(line, has_failed=True)
        return self.fault()

    def _read_kernel_log(self) -> None:
        while self._kernel >= 0:
            try:
                record = os.read(self._kernel, 8192)
            except OSError:  # nothing new, or what was there is overwritten
                return
            found = _XID.search(record)
            device = found[1].decode("ascii", "replace").partition("PCI:")[2].lower() if found else ""
            # Other jobs' GPUs speak there as well; theirs is the longer form of the same address.
            if found and int(found[2]) in XIDS and any(device in bus for bus in self._buses):
                self._blame(f"Xid {found[2].decode()} of {device}: {XIDS[int(found[2])]}")

    def _blame(self, why: str) -> None:
        self._fault = self._fault or why

    def close(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()
        if self._kernel >= 0:
            os.close(self._kernel)
            self._kernel = -1


def _open_kernel_log() -> int:
    """The kernel's log from now on; -1 where it is not shown, as in a container."""
    with contextlib.suppress(OSError):
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(fd, 0, os.SEEK_END)
        return fd
    return -1


def _number(text: Optional[str]) -> float:
    try:
        return float(text or "")
    except ValueError:
        return -1.0
