"""Which service accounts and secrets there are; every account is, unless a test says otherwise."""

from __future__ import annotations

from gputrain_emulator.world import World


class Accounts:
    """Service accounts that do not exist or are switched off, and secrets that exist."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.missing: set[str] = set()
        self.disabled: set[str] = set()
        self.secrets: dict[tuple[str, str], list[bytes]] = {}

    def add_secret(self, name: str, data: bytes, *, project: str = "") -> None:
        """One more version of a secret."""
        owner = self.world.find_project(project) if project else next(iter(self.world.projects.values()))
        if owner is None:
            raise LookupError(f"no such project: {project}")
        self.secrets.setdefault((owner.id, name), []).append(data)
