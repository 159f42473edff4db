"""The nvidia-smi of an emulated machine, a program of its own: tells of the GPUs that the machine type has.

It answers what provisioning scripts ask: the list (`-L`), a query (`--query-gpu=... --format=csv`), the
table.
"""

from __future__ import annotations

import json
import sys
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
    options = dict(each.partition("=")[::2] for each in arguments)
    if "-L" in options or "--list-gpus" in options:
        for index, gpu in enumerate(gpus):
            print(f"GPU {index}: {gpu['name']} (UUID: {_uuid(index)})")
        return 0
    if "--query-gpu" in options:
        return _query(gpus, options["--query-gpu"].split(","), options.get("--format", "csv").split(","))
    _table(gpus)
    return 0


def _query(gpus: Sequence[Mapping[str, object]], fields: Sequence[str], form: Sequence[str]) -> int:
    rows = [_facts(index, gpu, len(gpus)) for index, gpu in enumerate(gpus)]
    names = [field.strip() for field in fields]
    for name in names:
        if name not in rows[0]:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    units = {"memory.total": " MiB", "memory.used": " MiB", "memory.free": " MiB", "utilization.gpu": " %"}
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
