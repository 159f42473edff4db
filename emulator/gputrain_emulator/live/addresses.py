"""Loopback addresses for guests, each held by the metadata server that listens on it."""

from __future__ import annotations

import errno
import secrets

from gputrain_emulator.metadata import Metadata, MetadataServer

# Port 80 is where programs look that know only the name metadata.google.internal; without root's rights
# another one is taken, and GCE_METADATA_HOST tells of it.
PORTS = (80, 8788)
TRIES = 32


def serve_metadata(metadata: Metadata) -> MetadataServer:
    """A metadata server on a loopback address of its own.

    Listening is what reserves the address, among all emulators of this computer.
    """
    last: OSError | None = None
    for port in PORTS:
        for _ in range(TRIES):
            try:
                return MetadataServer(metadata, _random(), port)
            except OSError as error:  # noqa: PERF203 - a handful of tries
                last = error
                if error.errno != errno.EADDRINUSE:
                    break  # not ours to bind: the next port
    assert last is not None
    raise last


def _random() -> str:
    """Somewhere in 127.64.0.0/10, far from what distributions use (127.0.1.1, 127.0.0.53)."""
    return f"127.{64 + secrets.randbelow(64)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
