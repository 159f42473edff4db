"""The services the emulator answers for, in the order their routes are tried."""

from __future__ import annotations

import importlib
import importlib.util

from gputrain.emulator.routes import Routes, Service

MODULES = (
    "oauth",
    "storage",
    "logging",
    "serviceusage",
    "iam",
    "compute",
    "cloudquotas",
    "vertex",
    "unanswered",
)
"""Each is ``gputrain.emulator.NAME`` and holds ``SERVICES``, a tuple of ``Service``."""


def all_services() -> list[Service]:
    found: list[Service] = []
    for name in MODULES:
        if importlib.util.find_spec(f"gputrain.emulator.{name}"):
            found.extend(getattr(importlib.import_module(f"gputrain.emulator.{name}"), "SERVICES", ()))
    return found


def all_routes() -> Routes:
    return Routes(all_services())
