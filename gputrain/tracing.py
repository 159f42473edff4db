"""Spans for OpenTelemetry, where its API is installed; the program that uses gputrain sets the provider."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any


def _tracer() -> Any:
    try:
        from opentelemetry import trace as api
    except ImportError:
        return None
    return api.get_tracer("gputrain")


def span(name: str, facts: Mapping[str, str]) -> AbstractContextManager[Any]:
    """A span around a ``with``; an error that leaves it is recorded."""
    tracer = _tracer()
    return tracer.start_as_current_span(name, attributes=dict(facts)) if tracer else nullcontext()


def trace(
    name: str, begun: datetime | None, ended: datetime | None, facts: Mapping[str, str], *, is_error: bool
) -> None:
    """A span of something that is over."""
    tracer = _tracer()
    if tracer is None or ended is None:
        return
    from opentelemetry.trace import StatusCode

    begins, ends = (int(time.timestamp() * 1e6) * 1000 for time in (begun or ended, ended))
    one = tracer.start_span(name, start_time=begins, attributes=dict(facts))
    if is_error:
        one.set_status(StatusCode.ERROR)
    one.end(end_time=max(begins, ends))
