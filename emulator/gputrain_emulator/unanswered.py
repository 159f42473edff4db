"""Methods that Google has and the emulator does not: they answer 501, not the 404 of a path that is wrong."""

from __future__ import annotations

import csv
from importlib import resources

from gputrain_emulator.errors import Style
from gputrain_emulator.routes import Method, Service


def _services() -> tuple[Service, ...]:
    """One service for each name in the table, with methods and no handlers."""
    found: dict[str, Service] = {}
    text = (resources.files("gputrain_emulator") / "data" / "unanswered.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        name = row["service"]
        style = Style.STORAGE if name == "storage" else Style.PLATFORM
        service = found.setdefault(name, Service(name=name, style=style))
        service.written.append(
            Method(id=row["id"], service=name, style=style, verb=row["verb"], template=row["path"])
        )
    return tuple(found.values())


SERVICES = _services()
