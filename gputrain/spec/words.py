"""The closed sets of words that a spec uses."""

from __future__ import annotations

import enum


class Launcher(enum.Enum):
    """Who starts the ranks of a node."""

    TORCHRUN_ENV = "torchrun-env"
    """The node agent: one process a rank, with the environment that torchrun gives."""
    TENSORFLOW = "tensorflow"
    """The node agent: one process a node, with ``TF_CONFIG``."""
    NONE = "none"
    """The command itself: one process a node, run as it is."""


class EntryKind(enum.Enum):
    """What is run."""

    SCRIPT = "script"
    MODULE = "module"
    COMMAND = "command"
    FUNCTION = "function"
