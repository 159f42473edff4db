"""Spans for OpenTelemetry, where its api is installed; nothing at all where it is not.

No provider is set and nothing is sent: that is for the program that embeds us.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any


def _tracer() -> Any:
    try:
        from opentelemetry import trace as api
    except ImportError:
        return None
    return api.get_tracer("gputrain")


@contextmanager
def span(name: str, facts: Mapping[str, str]) -> Iterator[None]:
    """A span around what is done now; an error that leaves it is recorded."""
    tracer = _tracer()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(name, attributes=dict(facts)):
        yield


def trace(
    name: str, begun: datetime | None, ended: datetime | None, facts: Mapping[str, str], *, is_error: bool
) -> None:
    """A span of something that is over, with the times at which it was."""
    tracer = _tracer() if ended is not None else None
    if tracer is None or ended is None:
        return
    from opentelemetry.trace import Status, StatusCode

    begins = _nanoseconds(begun or ended)
    one = tracer.start_span(name, start_time=begins, attributes=dict(facts))
    if is_error:
        one.set_status(Status(StatusCode.ERROR))
    one.end(end_time=max(begins, _nanoseconds(ended)))


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1000
