"""``python -m gputrain.refresh``: the dated tables, made new from Google's own lists."""

from __future__ import annotations

import argparse
import json
import os
import sys

from gputrain.catalog import load
from gputrain.errors import GputrainError
from gputrain.gcp import Access
from gputrain.gcp.endpoints import reach
from gputrain.refresh import refresh


def main(arguments: list[str] | None = None) -> int:
    """Rebuild the tables; 0 when it did what it says."""
    options = _parser().parse_args(arguments)
    if not options.project:
        print("name a project: --project, or $GOOGLE_CLOUD_PROJECT", file=sys.stderr)
        return 2
    try:
        access = Access(project=options.project, **(reach(options.endpoint) if options.endpoint else {}))
        found = refresh(access, dry_run=options.dry_run, file=options.file)
    except GputrainError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(found.to_dict(), indent=1) if options.json else found)
    return 0


def _parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(
        prog="python -m gputrain.refresh",
        description="Rebuilds prices and places from three lists of Google's, and creates nothing there. "
        "What it writes wins over the tables that came with gputrain, until it is removed: "
        f"{load.path()}",
    )
    project = os.environ.get("GOOGLE_CLOUD_PROJECT", "")
    command.add_argument(
        "--project", default=project, help="whose APIs to ask; $GOOGLE_CLOUD_PROJECT unless said"
    )
    command.add_argument("--dry-run", action="store_true", help="show what is otherwise, and write nothing")
    command.add_argument("--json", action="store_true", help="every change as JSON")
    command.add_argument("--file", help="write here instead")
    command.add_argument(
        "--endpoint", metavar="URL", help="an emulator on this machine, for all of Google's APIs"
    )
    return command


if __name__ == "__main__":
    sys.exit(main())
