"""Names of jobs that were seen here, for a shell to complete: reading them asks nobody and loads nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

_MOST = 200


def _home() -> str:
    home = os.environ.get("GPUTRAIN_HOME")
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return os.path.abspath(os.path.expanduser(home or os.path.join(state, "gputrain")))


def names() -> list[str]:
    """The newest first: of this machine's jobs, and of those that commands have listed or made."""
    found: dict[str, None] = {}
    with contextlib.suppress(OSError), open(os.path.join(_home(), "seen"), encoding="utf-8") as file:
        found.update(dict.fromkeys(file.read().split()))
    with contextlib.suppress(OSError):
        entries = [one for one in os.scandir(os.path.join(_home(), "jobs")) if one.name[0].isalpha()]
        newest = sorted(entries, key=lambda one: one.stat().st_mtime, reverse=True)
        found = {**dict.fromkeys(one.name for one in newest[:_MOST]), **found}
    return list(found)


def remember(jobs: Iterable[str]) -> None:
    """Keep these names; where nothing can be written, nothing is completed, and nobody is told."""
    with contextlib.suppress(OSError):
        os.makedirs(_home(), mode=0o700, exist_ok=True)
        path = os.path.join(_home(), "seen")
        try:
            with open(path, encoding="utf-8") as file:
                before = file.read().split()
        except FileNotFoundError:
            before = []
        kept = list(dict.fromkeys([*jobs, *before]))[:_MOST]
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write("\n".join(kept))
        os.replace(file.name, path)
