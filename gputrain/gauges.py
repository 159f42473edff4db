"""What the machines of a job do, as their agents tell every 15 s: GPUs, CPUs, memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gputrain.backends.base import LogLine
from gputrain.backends.results import whole
from gputrain.entrypoint import contract
from gputrain.metrics import Metrics, Reports
from gputrain.progress import Report, is_number

_HIGHEST = ("celsius", "throttled")
"""Of a node's GPUs the worst is told; of watts and memory the sum, and of what is busy the mean."""
_OF_NODE = ("cpu_cores", "memory_mib")
_TOTALS = ("busy_s", "gpu_s")


def is_gauge(line: LogLine) -> bool:
    """Whether a line is one of an agent's that tells of its machine."""
    return line.rank is None and line.message.startswith(contract.GAUGE_MARKER)


class MachineUse:
    """Samples as they come in: a row for each, with names such as ``node0.gpu_busy``."""

    def __init__(self) -> None:
        self._reports = Reports()
        self._totals: dict[int, tuple[float, float]] = {}
        self._before = (0.0, 0.0)
        self._busy: dict[int, float] = {}

    def add(self, lines: Iterable[LogLine]) -> None:
        """Take in the samples among some log lines."""
        self._reports.take(self._rows(line for line in lines if is_gauge(line)))

    @property
    def metrics(self) -> Metrics:
        """All of them, thinned as reports are."""
        return self._reports.metrics

    @property
    def share(self) -> float | None:
        """The part of the GPUs' time, while ranks ran, in which kernels ran; None where no GPU was seen."""
        all_of = (self._before, *self._totals.values())
        busy_s, gpu_s = (sum(column) for column in zip(*all_of))
        return busy_s / gpu_s if gpu_s else None

    @property
    def busy(self) -> float | None:
        """The mean of the nodes' latest samples, in percent; None where no GPU was seen."""
        return sum(self._busy.values()) / len(self._busy) if self._busy else None

    def _rows(self, lines: Iterable[LogLine]) -> Iterator[Report]:
        for line in lines:
            told = _read(line.message)
            node = line.node_rank if line.node_rank is not None else whole(told.get("node"))
            if node is not None and is_number(told.get("time")):
                yield self._row(node, told)

    def _row(self, node: int, told: Mapping[str, Any]) -> Report:
        some = told.get("gpus")
        gpus = [one for one in some if isinstance(one, dict)] if isinstance(some, list) else []
        row = {name: told[name] for name in _OF_NODE if is_number(told.get(name))}
        for name in dict.fromkeys(name for one in gpus for name in one):
            values = [one[name] for one in gpus if is_number(one.get(name))]
            if values:
                row[f"gpu_{name}"] = max(values) if name in _HIGHEST else sum(values)
        if "gpu_busy" in row:
            row["gpu_busy"] /= len(gpus)
            self._busy[node] = row["gpu_busy"]
        if all(is_number(told.get(name)) for name in _TOTALS):
            self._count(node, (told["busy_s"], told["gpu_s"]))
        return {"time": told["time"], **{f"node{node}.{name}": value for name, value in row.items()}}

    def _count(self, node: int, totals: tuple[float, float]) -> None:
        last = self._totals.get(node, (0.0, 0.0))
        if totals[1] < last[1]:  # a new attempt counts from 0
            self._before = (self._before[0] + last[0], self._before[1] + last[1])
        self._totals[node] = totals


def _read(message: str) -> Mapping[str, Any]:
    try:
        told = json.loads(message[len(contract.GAUGE_MARKER) :])
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
