"""The services the emulator answers for, in the order their routes are tried."""

from __future__ import annotations

import functools
import importlib

from gputrain_emulator.routes import Routes, Service

HOMES = {
    "oauth": ("token", "oauth2"),
    "storage": ("storage", "upload", "download", "resumable"),
    "logging": ("v2",),
    "serviceusage": ("v1",),
    "iam": ("v1", "v3"),
    "registry": ("v2",),
    "repositories": ("v1",),
    "builds": ("v1",),
    "compute": ("compute",),
    "cloudbilling": ("v1",),
    "cloudquotas": ("v1",),
    "vertex": ("v1",),
}
"""``gputrain_emulator.NAME``, which holds ``SERVICES``, a tuple of ``Service``, and how its paths begin."""


def all_services() -> list[Service]:
    """Every service, loaded."""
    found: list[Service] = []
    for name in HOMES:
        found.extend(importlib.import_module(f"gputrain_emulator.{name}").SERVICES)
    return found


@functools.cache
def all_routes() -> Routes:
    """The routes of all services; the same for every emulator of this process."""
    return Routes(HOMES)
