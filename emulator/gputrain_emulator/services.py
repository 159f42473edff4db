"""The services the emulator answers for, in the order their routes are tried."""

from __future__ import annotations

import functools
import importlib

from gputrain_emulator.routes import Routes, Service

MODULES = (
    "oauth",
    "storage",
    "logging",
    "serviceusage",
    "iam",
    "registry",
    "compute",
    "cloudbilling",
    "cloudquotas",
    "vertex",
    "unanswered",
)
"""Each is ``gputrain_emulator.NAME`` and holds ``SERVICES``, a tuple of ``Service``."""


def all_services() -> list[Service]:
    found: list[Service] = []
    for name in MODULES:
        found.extend(importlib.import_module(f"gputrain_emulator.{name}").SERVICES)
    return found


@functools.cache
def all_routes() -> Routes:
    """The routes of all services; the same for every emulator of this process."""
    return Routes(all_services())
