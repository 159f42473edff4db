"""The words of the document in which a keeper tells how far its job has come; the same on every board.

One row per fact and nothing else here: keepers write these, ``gputrain.backends.agent_reports`` reads them.
"""

from __future__ import annotations

SCHEMA = 2

WAITING, STARTING, RUNNING, STOPPING, INTERRUPTED, ENDED = (
    "waiting", "starting", "running", "stopping", "interrupted", "ended"
)  # fmt: skip
PHASES = (WAITING, STARTING, RUNNING, STOPPING, INTERRUPTED, ENDED)
"""Values of ``phase``."""

CANCELLED = "cancelled"
RUN_LIMIT, WAIT_LIMIT = "max_run_duration", "max_wait_duration"
BOOT, RESTARTED, HALTED, ABSENT = "boot", "restarted", "halted", "absent"
PEER, SHUTDOWN, SUPERSEDED = "peer", "shutdown", "superseded"
WHYS = (CANCELLED, RUN_LIMIT, WAIT_LIMIT, BOOT, RESTARTED, HALTED, ABSENT, PEER, SHUTDOWN, SUPERSEDED)
"""Values of ``why``: what made the keeper stop its agents, or start none; empty where nothing did."""

UNABLE = (ABSENT, BOOT, HALTED, RESTARTED)
"""Why a node ended that never trained: the agents of the others may not know."""

TOO_EARLY = (ABSENT, HALTED)
"""Of these, what a VM ends by that Google's queue made before it had room for all: another gets its name."""
