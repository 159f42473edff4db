"""The nvidia-smi of an emulated machine, a program of its own: tells of the GPUs that the machine type has.

It answers what provisioning scripts and monitors ask: the list (`-L`), a query (`--query-gpu=...
--format=csv`, of some GPUs with `-i`, again and again with `-l`), its fields (`--help-query-gpu`), the table.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence

DRIVER = "580.95.05"
CUDA = "13.0"


def main(gpus: Sequence[Mapping[str, object]], arguments: Sequence[str]) -> int:
    """Print what nvidia-smi prints for `arguments`; its exit status (9: no driver, 2: bad argument)."""
    if not gpus:
        print(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            "Make sure that the latest NVIDIA driver is installed and running."
        )
        return 9
    options = _options(arguments)
    if "--help-query-gpu" in options:
        print("\n".join(f'"{name}"\n' for name in _facts(0, gpus[0], len(gpus))))
        return 0
    if "-L" in options or "--list-gpus" in options:
        for index, gpu in enumerate(gpus):
            print(f"GPU {index}: {gpu['name']} (UUID: {_uuid(index)})")
        return 0
    if "--query-gpu" in options:
        wanted = options.get("-i", "").split(",")
        rows = [_facts(index, gpu, len(gpus)) for index, gpu in enumerate(gpus)]
        rows = [row for row in rows if wanted == [""] or {row["index"], row["uuid"]} & set(wanted)]
        form, again_s = options.get("--format", "csv").split(","), float(options.get("-l") or 0)
        code = _query(rows, options["--query-gpu"].split(","), form)
        while again_s and not code:
            sys.stdout.flush()
            time.sleep(again_s)
            _query(rows, options["--query-gpu"].split(","), [*form, "noheader"])
        return code
    _table(gpus)
    return 0


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """What stands behind each: after a ``=``, or in the next word for the two short ones that take one."""
    found, words = {}, list(arguments)
    while words:
        name, _, value = words.pop(0).partition("=")
        found[name] = words.pop(0) if name in ("-i", "-l") and words else value
    return found


def _query(rows: Sequence[Mapping[str, str]], fields: Sequence[str], form: Sequence[str]) -> int:
    if not rows:
        print("No devices were found")
        return 6
    names = [field.strip() for field in fields]
    for name in names:
        if name not in rows[0]:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    units = {
        "memory.total": " MiB",
        "memory.used": " MiB",
        "memory.free": " MiB",
        "utilization.gpu": " %",
        "power.draw": " W",
    }
    bare = "nounits" in form
    if "noheader" not in form:
        print(", ".join(name + (f" [{units[name].strip()}]" if name in units else "") for name in names))
    for row in rows:
        print(", ".join(row[name] + ("" if bare else units.get(name, "")) for name in names))
    return 0


def _facts(index: int, gpu: Mapping[str, object], count: int) -> dict[str, str]:
    memory = str(gpu["memory_mib"])
    return {
        "index": str(index),
        "count": str(count),
        "name": str(gpu["name"]),
        "gpu_name": str(gpu["name"]),
        "uuid": _uuid(index),
        "gpu_uuid": _uuid(index),
        "driver_version": DRIVER,
        "memory.total": memory,
        "memory.free": memory,
        "memory.used": "0",
        "utilization.gpu": "0",
        "temperature.gpu": "35",
        "power.draw": "62.31",
        "clocks_event_reasons.active": "0x0000000000000001",
        "ecc.errors.uncorrected.volatile.total": "0",
        "remapped_rows.failure": "0",
        "gpu_recovery_action": "None",
        "fabric.state": str(gpu.get("fabric", "[N/A]")),
        "fabric.status": "Success" if gpu.get("fabric") == "Completed" else "[N/A]",
        "pci.bus_id": f"00000000:00:{4 + index:02X}.0",
    }


def _table(gpus: Sequence[Mapping[str, object]]) -> None:
    print(f"NVIDIA-SMI {DRIVER}    Driver Version: {DRIVER}    CUDA Version: {CUDA}    (emulated)")
    for index, gpu in enumerate(gpus):
        print(f"| {index:3d}  {gpu['name']!s:<45} 0MiB / {gpu['memory_mib']}MiB |")


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-4000-8000-{index:012d}"


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
