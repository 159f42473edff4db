"""What a metadata server knows: a tree of values and the machine's accounts."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MISSING = object()
"""There is nothing at this path."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A service account that the machine runs as.

    mint: an access token and its seconds of life, for the asked scopes (none: the account's own).
    """

    email: str
    scopes: tuple[str, ...]
    mint: Callable[[Sequence[str]], tuple[str, int]]


@dataclass(kw_only=True)
class Metadata:
    """The tree of one machine, read anew at every request, with a bell for those who wait for a change.

    read: the tree below `computeMetadata/v1` without the accounts, in Google's JSON form (camelCase keys).
    accounts: by name; the first of them also answers to `default`.
    """

    read: Callable[[], Mapping[str, Any]]
    accounts: Mapping[str, Account] = field(default_factory=dict)
    _bell: threading.Condition = field(default_factory=threading.Condition)
    _rung: int = 0

    def changed(self) -> None:
        """Wake whoever waits for a change."""
        with self._bell:
            self._rung += 1
            self._bell.notify_all()

    def account(self, name: str) -> Account | None:
        """By `default` or by email."""
        if name == "default":
            return next(iter(self.accounts.values()), None)
        return self.accounts.get(name)

    def at(self, path: str) -> Any:
        """The value at a path such as `instance/machine-type`; MISSING where there is none."""
        tree = dict(self.read())
        tree["instance"] = {**tree["instance"], "serviceAccounts": self._account_tree()}
        node: Any = tree
        for step in filter(None, path.split("/")):
            node = _child(node, step)
            if node is MISSING:
                return MISSING
        return node

    def wait(self, path: str, last_etag: str | None, timeout_s: float) -> Any:
        """The value at `path` once its etag is not `last_etag`, or as it is after `timeout_s` seconds."""
        before = last_etag if last_etag is not None else etag(self.at(path))
        deadline = time.monotonic() + timeout_s
        while True:
            with self._bell:  # never held while the tree is read: whoever rings may hold the world's lock
                rung = self._rung
            value, left = self.at(path), deadline - time.monotonic()
            if etag(value) != before or left <= 0:
                return value
            with self._bell:
                self._bell.wait_for(lambda: self._rung != rung, left)  # noqa: B023 - asked at once

    def _account_tree(self) -> dict[str, Any]:
        names = ["default", *self.accounts] if self.accounts else []
        rows = {}
        for name in names:
            account = self.account(name)
            assert account is not None
            rows[name] = {"aliases": ["default"], "email": account.email, "scopes": list(account.scopes)}
        return rows


def is_directory(value: Any) -> bool:
    """Whether a value is listed by name: an object, or a list of objects."""
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
    )


def children(value: Any, *, verbatim: bool) -> list[tuple[str, Any]]:
    """What a directory holds, as the paths spell it; verbatim: its keys are a user's own."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return sorted((str(key) if verbatim else _kebab(str(key)), item) for key, item in pairs)


def etag(value: Any) -> str:
    """A fingerprint: equal values have equal etags."""
    text = "" if value is MISSING else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _child(node: Any, step: str) -> Any:
    if isinstance(node, dict):
        if step in node:
            return node[step]
        return next((item for key, item in node.items() if _kebab(key) == step), MISSING)
    if isinstance(node, list) and re.fullmatch("[0-9]{1,9}", step) and int(step) < len(node):
        return node[int(step)]
    return MISSING


def _kebab(key: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "-" + match[0].lower(), key)
