"""The metadata server of one emulated machine, as programs inside find it at metadata.google.internal."""

from __future__ import annotations

from gputrain_emulator.metadata.server import MetadataServer
from gputrain_emulator.metadata.tree import Account, Metadata

__all__ = ["Account", "Metadata", "MetadataServer"]
