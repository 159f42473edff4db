"""What this node's ranks and GPUs use: one line every 15 s, for programs, beside what the ranks write.

GPUs are read from one nvidia-smi that runs as long as the ranks, and so is what their driver says when one of
them fails. A field that a driver does not know fails a whole query, so it is asked first what it knows.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import contract, host, processes

EVERY_S = 15
ASK_S, FAULT_S = 20.0, 5.0
"""How long nvidia-smi may take for what it knows, and for what it sees now, for which all nodes wait."""

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


class Telemetry:
    """Samples while the ranks of a run do. `write` takes a line of the agent's own."""

    def __init__(
        self, node_rank: int, write: Callable[[bytes], None], env: Mapping[str, str], every_s: int = EVERY_S
    ) -> None:
        self._node_rank, self._write, self._every_s = node_rank, write, every_s
        self._gpus = GpuWatch(env, every_s)
        self._cpu_s = self._busy_s = self._gpu_s = 0.0
        self._sampled_at = time.monotonic()
        self._look_at = self._sampled_at + every_s

    def look(self, sessions: Sequence[int]) -> str:
        """Write the line that is due, of these sessions; why the machine is at fault, if so."""
        now = time.monotonic()
        if now < self._look_at:
            return ""
        self._look_at = now + self._every_s
        sample = json.dumps(self._sample(now, sessions, list(self._gpus.latest.values())))
        self._write(f"{contract.GAUGE_MARKER}{sample}".encode())
        return self._gpus.fault()

    def fault_now(self) -> str:
        return self._gpus.fault_now()

    def end(self) -> None:
        self._gpus.close()

    def _sample(
        self, now: float, sessions: Sequence[int], gpus: Sequence[Mapping[str, float]]
    ) -> dict[str, Any]:
        passed_s, self._sampled_at = now - self._sampled_at, now
        ticks, pages = host.usage_of(sessions)
        # Processes that ended took their seconds with them: what is left never counts backwards.
        cores = max(0.0, ticks / _TICKS - self._cpu_s) / passed_s
        self._cpu_s = ticks / _TICKS
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

    def __init__(self, environ: Mapping[str, str], every_s: int = EVERY_S) -> None:
        self.latest: dict[str, dict[str, float]] = {}
        """The last sample of each by its UUID, in nvidia-smi's order."""
        visible = environ.get("CUDA_VISIBLE_DEVICES")
        self._query: list[str] = []
        self._fields: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._first: dict[str, str] = {}
        self._buses: list[str] = []
        self._fault = ""
        self._is_stuck = False
        self._kernel_log = -1
        """The kernel's log from now on; -1 where it is not shown, as in a container."""
        if visible != "":
            with contextlib.suppress(OSError):
                self._begin(["-i", visible] if visible else [], every_s)

    def _begin(self, which: list[str], every_s: int) -> None:
        known = processes.output_of(["nvidia-smi", "--help-query-gpu"], ASK_S).decode("utf-8", "replace")
        wanted = [_UUID, _BUS, *FIELDS, _REASONS, _OLD_REASONS, _ECC, _REMAP, _ACTION]
        self._fields = [one for one in wanted if f'"{one}"' in known]
        if _UUID not in self._fields:
            return
        fields = ",".join(self._fields)
        self._query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", *which]
        with contextlib.suppress(OSError):
            self._kernel_log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._kernel_log, 0, os.SEEK_END)
        self._process = subprocess.Popen(
            [*self._query, "-l", str(every_s)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )  # fmt: skip
        threading.Thread(target=self._follow, name="gputrain-gpus", daemon=True).start()

    def _follow(self) -> None:
        assert self._process and self._process.stdout  # noqa: PT018
        for line in self._process.stdout:
            self._read(line)

    def _read(self, line: str, has_failed: bool = False) -> None:
        """Take one GPU's line, or the words of a driver that has lost one."""
        if "GPU is lost" in line or "fallen off the bus" in line:
            self._fault = self._fault or f"nvidia-smi says: {line.strip()[:200]}"
        values = dict(zip(self._fields, (value.strip().strip("[]") for value in line.split(","))))
        uuid = values.get(_UUID, "")
        if len(values) < len(self._fields) or not uuid.startswith(("GPU-", "MIG-")):
            return
        if uuid not in self.latest:
            self._buses.append(values.get(_BUS, "").lower())
        sample = {}
        for field, name in FIELDS.items():
            with contextlib.suppress(ValueError):
                sample[name] = float(values.get(field, ""))
        with contextlib.suppress(ValueError):
            reasons = values.get(_REASONS) or values.get(_OLD_REASONS) or ""
            sample["throttled"] = float(bool(int(reasons, 16) & _THROTTLED))
        self.latest = {**self.latest, uuid: sample}
        for field in (_ECC, _REMAP, _ACTION):
            now = values.get(field, "").lower()
            first = self._first.setdefault(f"{uuid} {field}", now)
            # What stood there before is the machine's past, as long as the ranks live with it.
            before = "none" if has_failed and field == _ACTION else first
            if now != before and now not in _NO_FAULT:
                number = list(self.latest).index(uuid)
                self._fault = self._fault or f"GPU {number} ({uuid}): {field} went from {before} to {now}"

    def fault(self) -> str:
        """Why the machine is at fault, if its driver has said so."""
        self._read_kernel_log()
        return self._fault

    def fault_now(self) -> str:
        """The same, with the driver asked anew: a rank may have failed of it."""
        if self._query and not self._is_stuck and not self.fault():
            self._is_stuck = True  # a driver that is stuck holds up no rank's end a second time
            with contextlib.suppress(OSError):
                lines = processes.output_of(self._query, FAULT_S).decode("utf-8", "replace").splitlines()
                self._is_stuck = False
                for line in lines:
                    self._read(line, has_failed=True)
        return self.fault()

    def _read_kernel_log(self) -> None:
        while self._kernel_log >= 0:
            try:
                record = os.read(self._kernel_log, 8192)
            except OSError:  # nothing new, or what was there is overwritten
                return
            found = _XID.search(record)
            device = found[1].decode("ascii", "replace").partition("PCI:")[2].lower() if found else ""
            # Other jobs' GPUs speak there as well; theirs is the longer form of the same address.
            if found and int(found[2]) in XIDS and any(device in bus for bus in self._buses):
                self._fault = self._fault or f"Xid {found[2].decode()} of {device}: {XIDS[int(found[2])]}"

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
        if self._kernel_log >= 0:
            os.close(self._kernel_log)
            self._kernel_log = -1


PROBE_S = 120.0
"""How long it may take to import torch from a cold disk."""
PROBE = """
import torch
if torch.version.cuda and not torch.cuda.is_available():
    print(torch.__version__, torch.version.cuda, torch._C._cuda_getDriverVersion())
"""


class GpuCheck:
    """Asks torch once in a run, in a process beside the ranks, whether it sees the machine's GPUs.

    Where it does not, it trains on the CPU while they are paid for.
    """

    def __init__(self) -> None:
        self._why = ""

    def begin(self, environ: Mapping[str, str]) -> None:
        """Ask in the ranks' environment, if this node has GPUs."""
        if count := host.gpu_count(environ):
            threading.Thread(target=self._ask, args=(environ, count), daemon=True).start()

    def _ask(self, environ: Mapping[str, str], count: int) -> None:
        environ = {**environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "0"}  # NVML counts what torch cannot use, too
        try:
            found = processes.output_of(
                [sys.executable, "-c", PROBE], PROBE_S, env=environ, stderr=subprocess.DEVNULL
            )
        except OSError:
            return
        words = found.decode("utf-8", "replace").split()
        if len(words) == 3 and words[2].isdigit():
            driver = f"{int(words[2]) // 1000}.{int(words[2]) % 1000 // 10}"
            self._why = (
                f"torch {words[0]} of CUDA {words[1]} sees none of the {count} GPUs, whose driver runs CUDA "
                f"{driver}: it would train on the CPU. Take an image or a torch of CUDA {driver} or older"
            )

    def look(self, pids: Sequence[int]) -> str:
        """Why these ranks must not continue; empty where torch sees GPUs, or they do not use it."""
        return self._why if self._why and any(map(host.uses_torch, pids)) else ""
