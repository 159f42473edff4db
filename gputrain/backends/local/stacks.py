"""Asks the agents of a job on this machine where their ranks stand: by files in the folder of its attempt."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gputrain.backends.stacks import MOST_BYTES, node_of, read_standings
from gputrain.backends.status import read as read_status
from gputrain.entrypoint import contract
from gputrain.keeper import folder
from gputrain.records.folder import explained


def ask(path: str, nonce: str) -> None:
    """Leave the question; twice is two questions."""
    with explained(path):
        folder.write_whole(os.path.join(_attempt(path), contract.STACKS_ASK), nonce.encode())


def read(path: str, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:
    """The answers that are there, by node."""
    attempt = _attempt(path)
    names = {node: name for name in os.listdir(attempt) if (node := node_of(name, nonce)) is not None}
    return {node: read_standings(_content(os.path.join(attempt, name)), node) for node, name in names.items()}


def _attempt(path: str) -> str:
    told = read_status(folder.read_json(os.path.join(path, folder.STATE)) or {})
    return os.path.join(path, folder.ATTEMPT.format(attempt=told.attempt))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MOST_BYTES)
