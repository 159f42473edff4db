"""What a type checker sees of a refresh: read by mypy, never run."""

from typing_extensions import assert_type

from gputrain.catalog.refresh import Change, ChangeKind, Refreshed, refresh
from gputrain.display.table import Table
from gputrain.google import GoogleClient

found = refresh(GoogleClient(project="my-project"), dry_run=True)
assert_type(found, Refreshed)
assert_type(found.changes, tuple[Change, ...])
assert_type(found.changes[0].kind, ChangeKind)
assert_type(found.changes[0].percent, float | None)
assert_type(found.table, Table)
