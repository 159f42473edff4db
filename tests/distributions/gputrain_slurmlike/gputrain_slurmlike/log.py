"""The lines of all nodes of a job, merged by time."""

import time
from pathlib import Path

from gputrain.backends.agent_reports import read_line
from gputrain.backends.base import LogLine, LogPage

SETTLES_S = 0.1
"""Between an agent's stamp on a line and the line in the file, at most."""


def read_log(folder: Path, nodes: int, cursor: str, *, is_over: bool) -> LogPage:
    """The lines since a cursor: how many bytes of each node's file were read."""
    offsets = [int(one) for one in cursor.split(",")] if cursor else [0] * nodes
    newest = float("inf") if is_over else time.time() - SETTLES_S
    found: list[tuple[float, int, LogLine]] = []
    for node in range(nodes):
        stamp = 0.0
        for raw in _lines(folder / f"node-{node}.log", offsets[node], is_over=is_over):
            line = read_line(raw.decode(errors="backslashreplace").rstrip("\n"), node)
            stamp = max(stamp, line.time.timestamp() if line.time else 0.0)
            if stamp > newest:
                break
            offsets[node] += len(raw)
            found.append((stamp, node, line))
    found.sort(key=lambda one: one[:2])
    return LogPage(lines=tuple(line for *_, line in found), cursor=",".join(map(str, offsets)))


def _lines(path: Path, offset: int, *, is_over: bool) -> list[bytes]:
    if not path.exists():
        return []
    with open(path, "rb") as file:
        file.seek(offset)
        lines = file.read().split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last and is_over else [])
