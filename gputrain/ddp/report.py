"""What a run says: one `GPUTRAIN_METRIC` line of JSON per report, and notices for people."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from typing import Any

from gputrain.ddp.errors import SessionError
from gputrain.runtime import contract

_OURS = ("step", "time", "total_steps")
_noticed: set[str] = set()


def metric_line(step: int, metrics: dict[str, Any], now: float, total: int | None = None) -> str:
    """One line that `job.metrics()` reads back: the marker, then JSON with `step`, `time` and the metrics.

    Where it is known how many steps there will be, `total_steps` says so. A metric that is called like one of
    the line's own is kept under another name, with one notice: a run of days does not end for it.

    Values are numbers, texts, or anything of one element with `.item()` (tensors, numpy scalars).
    JSON knows no NaN or infinity: they become the texts "nan", "inf" and "-inf", which `float()` reads.

    Example:
        >>> metric_line(7, {"loss": float("nan")}, now=1.0)
        'GPUTRAIN_METRIC {"step": 7, "time": 1.0, "loss": "nan"}'
    """
    document: dict[str, Any] = {"step": int(step), "time": round(now, 3)}
    if total is not None:
        document["total_steps"] = total
    for name, value in metrics.items():
        kept = f"{name}_reported" if name in _OURS else name
        if kept != name and name not in _noticed:
            _noticed.add(name)
            notice(f"the metric {name!r} is kept as {kept!r}: every report has a {name} of its own")
        document[kept] = _plain(name, value)
    return contract.METRIC_MARKER + json.dumps(document)


def _plain(name: str, value: Any) -> Any:
    if hasattr(value, "item"):
        try:
            value = value.item()
        except (RuntimeError, ValueError) as error:
            fix = f"report a single value, such as {name}.mean()"
            raise SessionError(f"metric {name!r} is not one number", why=str(error), fix=fix) from error
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise SessionError(
        f"metric {name!r} is a {type(value).__name__}",
        why="a metric is a number, a text or a tensor of one element",
        fix="convert it before reporting it",
    )


_beat_at = 0.0


def beat() -> None:
    """Show the node's agent that this rank makes progress; at most one system call per second."""
    global _beat_at
    now, error_file = time.monotonic(), os.environ.get(contract.ERROR_FILE)
    if error_file and now >= _beat_at + 1.0:
        _beat_at = now
        path = os.path.join(os.path.dirname(error_file), contract.BEAT_FILE)
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            os.utime(path)


def write_line(text: str) -> None:
    """Print a line at once, in one write, so that lines of several ranks do not mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def notice(text: str) -> None:
    """Tell the person who reads the log something about the run itself."""
    sys.stderr.write("[gputrain] " + text + "\n")
    sys.stderr.flush()
